"""The entries of a batch: from an Atom feed, or from a multipart body."""
