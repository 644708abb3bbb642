"""What is done in a queue that keeps it: how long, and how it is brought back."""
