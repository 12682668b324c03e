"""Which load should be on which store: objective, search, plans with reasons, and their trial."""
