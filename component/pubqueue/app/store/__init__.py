"""The interface of a store for the shell: the seam, its rows, and its listings."""
