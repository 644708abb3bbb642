"""For nodes, their settings, and those around them."""
