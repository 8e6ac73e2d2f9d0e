"BibTeX entries of the papers behind the losses."
BANSAL = """
@misc{bansal2022interventions,
    title={Using Interventions to Improve Out-of-Distribution Generalization of Text-Matching Systems},
    author={Parikshit Bansal and Yashoteja Prabhu and Emre Kiciman and Amit Sharma},
    year={2022},
    eprint={2210.10636},
    archivePrefix={arXiv}
}
"""
GAO = """
@inproceedings{gao2021simcse,
    title={{SimCSE}: Simple Contrastive Learning of Sentence Embeddings},
    author={Tianyu Gao and Xingcheng Yao and Danqi Chen},
    booktitle={Proceedings of EMNLP},
    year={2021}
}
"""
IYYER = """
@inproceedings{iyyer2015deep,
    title={Deep Unordered Composition Rivals Syntactic Methods for Text Classification},
    author={Mohit Iyyer and Varun Manjunatha and Jordan Boyd-Graber and Hal {Daumé III}},
    booktitle={Proceedings of ACL-IJCNLP},
    year={2015}
}
"""
MUKHOTI = """
@article{mukhoti2024fine,
    title={Fine-tuning can cripple your foundation model; preserving features may be the solution},
    author={Jishnu Mukhoti and Yarin Gal and Philip H.S. Torr and Puneet K. Dokania},
    journal={Transactions on Machine Learning Research},
    year={2024},
    eprint={2308.13320},
    archivePrefix={arXiv}
}
"""
LI = """
@inproceedings{li2018explicit,
    title={Explicit Inductive Bias for Transfer Learning with Convolutional Networks},
    author={Xuhong Li and Yves Grandvalet and Franck Davoine},
    booktitle={Proceedings of ICML},
    year={2018}
}
"""
SAWATPHOL = """
@inproceedings{sawatphol2022topic,
    title={Topic-Regularized Authorship Representation Learning},
    author={Jitkapat Sawatphol and Nonthakit Chaiwong and Can Udomcharoenchaikit and Sarana Nutanong},
    booktitle={Proceedings of EMNLP},
    year={2022}
}
"""
CLARK = """
@inproceedings{clark2019dont,
    title={Don't Take the Easy Way Out: Ensemble Based Methods for Avoiding Known Dataset Biases},
    author={Christopher Clark and Mark Yatskar and Luke Zettlemoyer},
    booktitle={Proceedings of EMNLP-IJCNLP},
    year={2019}
}
"""
ZHONG = """
@inproceedings{zhong2022reducing,
    title={Reducing Spurious Correlations for Answer Selection by Feature Decorrelation and Language Debiasing},
    author={Zeyi Zhong and Min Yang and Ruifeng Xu},
    booktitle={Proceedings of COLING},
    year={2022}
}
"""
