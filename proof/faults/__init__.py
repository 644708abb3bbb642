"""Real disks, databases, servers and clocks that fail, under the real service."""
