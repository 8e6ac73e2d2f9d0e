"The commands of `debias-nb`, a module for each of the three lists that its help shows."
