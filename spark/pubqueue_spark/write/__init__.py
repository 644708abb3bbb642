"""Writing: publishes the rows of a DataFrame as items, in transactions."""
