"""The configuration: settings, the nodes and schedules that a file declares, and reading it again."""
