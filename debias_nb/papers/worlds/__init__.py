"Synthetic data with what the papers ask about planted in them."
