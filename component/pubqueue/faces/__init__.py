"""Faces: one folder each. A face speaks a protocol; nothing about a queue is decided here.

The table `FACES` of `wiring` lists the faces.
"""
