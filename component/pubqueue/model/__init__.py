"""The nouns of the queue, and what a rule may return: values only. Nothing here decides anything."""
