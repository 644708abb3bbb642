"""Commands on messages that are kept for their senders."""
