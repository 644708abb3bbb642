"""Pushing: messages that the service sends to endpoints without being polled."""
