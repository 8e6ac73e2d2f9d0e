"The engine: what a configuration may say, how runs train, and the records that they leave."
