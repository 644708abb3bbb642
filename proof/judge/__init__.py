"""A judge of histories: a tool of its own, which knows nothing of the service that it judges."""
