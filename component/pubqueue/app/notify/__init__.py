"""What is sent after a commit: replies, deliveries and notices, to one and to many, and repeated deliveries."""
