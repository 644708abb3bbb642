"""Faces: one folder each. A face speaks a protocol; nothing about a queue is decided here.

Which faces there are says the table `FACES` of `wiring`.
"""
