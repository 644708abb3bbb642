"""Publishes in the commit of the user's own database: a table of items that wait, and relays that publish them.

`outbox` has the table and what is done to it in the user's transaction, `relay` the program that publishes. `rows` has the
statements, `databases` the ways to run them; neither SQLAlchemy nor Django is needed unless a connection of theirs is given.
"""
