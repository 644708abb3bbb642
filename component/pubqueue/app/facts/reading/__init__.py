"""Facts for reads: pages, items, samples, the state of a queue."""
