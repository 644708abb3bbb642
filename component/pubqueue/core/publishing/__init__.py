"""Published items: their places in a queue, the queues that a topic feeds, their filters, and keys of publishes."""
