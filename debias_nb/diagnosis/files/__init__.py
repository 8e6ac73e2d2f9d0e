"Readers of a user's files: pairs, judgments, runs of a search, results of benchmarks, samples to be labeled."
