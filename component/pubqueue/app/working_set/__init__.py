"""The working set of a batch: rows as the requests before have changed them, and what has to be written."""
