"Readers of the corpora that the papers train and test on."
