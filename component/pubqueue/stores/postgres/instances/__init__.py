"""The processes on a database: which of them serve, write, or hang."""
