"""A disk that forgets: a file system in user space that keeps what was synced, and of the rest what a seed leaves; and what is proved on it."""
