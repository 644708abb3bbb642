"""The stream with the server: reading stanzas from bytes, and the pace of writing."""
