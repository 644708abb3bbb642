"""The shell around the rules: load, decide, apply, commit, send. In that order, in batches."""
