"""An item's way through its queue: published, handed out, settled, expired, dead, redriven."""
