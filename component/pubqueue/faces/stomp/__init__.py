"""STOMP 1.2, 1.1 and 1.0.

`codec` has its frames, without I/O. The program `pubqueue curb` (`pubqueue.curb`) speaks it by the same codec.
"""
