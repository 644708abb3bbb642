"""The configuration: settings, the nodes and schedules that a file declares, and reloading."""
