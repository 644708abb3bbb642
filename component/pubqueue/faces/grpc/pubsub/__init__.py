"""The common actions of both bindings on topics and subscriptions, as requests to the queues."""
