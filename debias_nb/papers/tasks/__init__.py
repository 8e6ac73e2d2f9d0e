"One object a task: how it trains, tests, and what a run of it lacks."
