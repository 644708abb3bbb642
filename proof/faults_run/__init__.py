"""Ten thousand items through a real server, while component, server and workers are killed at random.

Publishers send each item until it is confirmed, always under the same id. Workers note each result before
they retract its item. At the end the store is counted and compared with what both have noted: nothing
that was confirmed may be neither done nor there.
"""
