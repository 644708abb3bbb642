"""Reads requests from stanzas, one module for each kind; the table in `verbs` selects the reader."""
