"Whether, where and why fine-tuning made an encoder worse, on one page; and which method helps."
