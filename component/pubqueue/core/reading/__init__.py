"""What is read without being taken: retrieved items, pages of events, items and nodes."""
