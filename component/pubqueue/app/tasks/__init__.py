"""What runs beside the broker: locks and lives that end, schedules, other processes on the same store."""
