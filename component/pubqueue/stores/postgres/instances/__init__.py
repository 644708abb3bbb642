"""Who serves from a database, who writes, and who hangs."""
