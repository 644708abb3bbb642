"""For commits, and the moves that follow them."""
