"""Tasks that run beside the broker: expiry of locks and lifetimes, schedules, other processes on the same store."""
