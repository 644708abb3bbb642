"""An item's way through its queue: published, delivered, settled, expired, dead, redriven."""
