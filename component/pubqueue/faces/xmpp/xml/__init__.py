"""Pieces of XML that reading and writing share: stanzas, forms, headers, payloads, result sets."""
