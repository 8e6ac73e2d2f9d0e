"What only this companion to the papers needs: their tables, figures and pages."
