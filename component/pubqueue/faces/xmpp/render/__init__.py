"""From replies and notices to bytes."""
