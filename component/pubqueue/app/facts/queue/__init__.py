"""For publishing, settling, and what ends by itself."""
