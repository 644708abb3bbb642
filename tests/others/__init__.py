"""What other pubsub services do: the same requests to Prosody's own, to ejabberd's own, and to this one.

`python -m others` in `tests` prints the table of README.md, `--write` puts it there; a test holds it to be true.
"""
