"""For publishing, settling, and rows that expire."""
