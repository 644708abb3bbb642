"""Parts for all requests: identity, links, problems, routes, and bodies."""
