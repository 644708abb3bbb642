"""Where calls come in: the server and its handlers, TLS, and the account of a caller."""
