"""Which rows each rule needs: a companion for each, which turns rows into the facts of its rule.

A companion is pure. It asks the working set; what is not known there is noted, and the companion is asked again
when it is loaded. It decides nothing: where it looks at rights, it asks the rule's own module.
"""
