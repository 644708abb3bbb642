"""Many items as one: staged by their publisher, visible with its commit."""
