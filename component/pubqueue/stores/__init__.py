"""Stores: one folder each. A store holds facts and makes changes; it never judges."""
