"""Relays of an outbox, killed at random moments."""
