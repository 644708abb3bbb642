"""Jobs of millions of rows."""
