"""Hypothesis: `make test` draws the same examples every time, `make fuzz` new ones and more of them."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")
