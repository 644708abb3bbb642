"""Payloads: from a value to XML, and back."""
