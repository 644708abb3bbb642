"""Crowds, schedules and transactions, with the service killed at every point."""
