"""Work at set times: what is published when, once for each time."""
