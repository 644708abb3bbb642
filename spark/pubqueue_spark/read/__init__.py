"""Reading: the tables of a service, cut into partitions."""
