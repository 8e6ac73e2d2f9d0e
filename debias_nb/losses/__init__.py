"Losses, and what is added to them."
