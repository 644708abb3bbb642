"""The working set of a batch: rows with the changes of earlier requests, and the pending writes."""
