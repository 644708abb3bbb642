"""The commands that use the service's configuration or store: serve, check, backup, restore, migrate."""
