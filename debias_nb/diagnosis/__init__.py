"Whether, where and why fine-tuning made an encoder worse, on one page; which method helps, and what to label."
