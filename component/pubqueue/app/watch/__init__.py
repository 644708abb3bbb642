"""Observers of the service: phases and batches, the operator log, the rates of work."""
