"""The stream with the server: how bytes come in, at what pace they leave, and what one account may have under way."""
