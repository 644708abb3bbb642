"""The commands that are the service, or take its place: serve, check, backup, restore, migrate."""
