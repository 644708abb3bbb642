"""The wire format and its meaning: messages, names, ack ids, payloads, codes. Pure."""
