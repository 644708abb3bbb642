"""The limits of an account, of a request and of the service."""
