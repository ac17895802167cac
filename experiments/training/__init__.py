"""Train, evaluate and record the runs behind the tables."""
