"""The shell around the rules: load, decide, apply, commit, send. In that order, in batches.

`broker` takes requests, `batch` carries them, `table` knows the facts and the rule of each, and `sending` follows the commit.
"""
