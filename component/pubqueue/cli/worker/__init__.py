"""`pubqueue worker`: handlers of a module, run in one process or in several."""
