"What only this companion to the papers needs: runs, records, pages."
