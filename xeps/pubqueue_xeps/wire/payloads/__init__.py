"""Payloads: values to XML, and back."""
