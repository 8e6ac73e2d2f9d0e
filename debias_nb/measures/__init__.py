"Metrics, ranking and statistics."
