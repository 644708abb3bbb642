"""Who observes the service: phases and batches, the log of the operator, the rates of work."""
