"""The shell around the rules: load, decide, apply, commit, speak. In that order, in batches."""
