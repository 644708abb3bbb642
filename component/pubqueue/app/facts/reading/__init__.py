"""For those who read: pages, items, samples, the state of a queue."""
