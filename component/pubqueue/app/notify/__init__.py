"""What leaves after a commit: replies, deliveries and notices, to one and to many, and what is sent again."""
