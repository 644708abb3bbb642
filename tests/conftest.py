"""Hypothesis: `make test` draws the same examples every time, `make fuzz` new ones and more of them."""

from hypothesis import settings

# minutes, and Java's memory several times over: `make test-spark` names the folder
collect_ignore = ["spark_cluster"]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")
