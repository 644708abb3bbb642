"""Power that is lost, standbys that take over, backups beside a service."""
