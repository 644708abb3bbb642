"""From a request to an item, and from an item to an answer."""
