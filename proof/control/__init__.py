"""A control group: the same judge and the same load against other brokers, of which it is known what they lose."""
