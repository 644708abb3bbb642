"""The forms of each group of ad-hoc commands."""
