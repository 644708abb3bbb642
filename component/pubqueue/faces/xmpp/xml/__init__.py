"""XML that readers and renderers share: stanzas, forms, headers, payloads, result sets."""
