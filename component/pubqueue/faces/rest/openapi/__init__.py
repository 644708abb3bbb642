"""The OpenAPI 3.1 descriptions of the profiles."""
