"The command line: what all commands share. The commands themselves stand in the leaves."
