"""An item's path through its queue: published, delivered, settled, expired, dead, redriven."""
