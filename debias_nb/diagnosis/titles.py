"Metrics of all tests, and what pages call them."

TITLES = {
    "auc05": "AUC(0.05)", "ap": "average precision", "accuracy": "accuracy", "mrr": "MRR", "ndcg10": "nDCG@10",
    "mrr10": "MRR@10", "recall10": "recall@10", "recall100": "recall@100", "map": "MAP",
    "main_score": "main score",
}
