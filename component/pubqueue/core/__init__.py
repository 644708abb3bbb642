"""The rules of the queue, pure: values in, decisions out. No clock, no random, no log, no I/O."""
