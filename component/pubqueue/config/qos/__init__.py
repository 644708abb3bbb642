"""The table `[qos]` of the configuration."""
