"The synthetic data, scores and pictures of the three notebooks to read."
