"Settings of the papers' four tasks, a module each; none of them loads a model."
