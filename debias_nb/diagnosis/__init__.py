"Whether, where and why fine-tuning made an encoder worse: a diagnosis as one page; which method helps, and what to label."
