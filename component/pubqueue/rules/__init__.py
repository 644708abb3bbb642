"""The rules of the queue, pure: values in, decisions out. A file for each use case. No clock, no random, no log, no I/O."""
