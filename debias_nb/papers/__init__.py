"What only the three papers need: readers of their corpora, synthetic data, tasks, pages and commands."
