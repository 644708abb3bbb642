"""Writing: from the rows of a DataFrame to items, in publishes and transactions."""
