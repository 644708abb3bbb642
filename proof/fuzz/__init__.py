"""Stanzas by the hundred thousand for the face: real ones, real ones spoilt, and ones that nobody would send.

The face, the broker and the store are the real ones, in this process; only the connection is not one. After
each stanza what was answered is judged, and what was written to the store.
"""
