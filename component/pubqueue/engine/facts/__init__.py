"""Which rows each rule needs: a companion for each, which turns rows into the facts of its rule.

A companion is pure. It asks the working set; missing rows are noted, and the companion runs again when they are
loaded. It decides nothing: to check rights, it calls the rule's own module.
"""
