"""What an account, a request and the service are held to."""
