"""Work at set times: what is to be published when, once for each time."""
