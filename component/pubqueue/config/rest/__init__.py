"""The table `[rest]`: where REST is served, and with which settings."""
