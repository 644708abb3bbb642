"""Who may do what: tables written by hand from XEP-0060, every cell of them tried on the wire."""
