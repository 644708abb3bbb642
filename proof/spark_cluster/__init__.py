"""Spark on clusters of several processes: how the format is deployed, and what happens when parts are killed."""
