"""What the shell asks of a store: the seam, its rows, and its listings."""
