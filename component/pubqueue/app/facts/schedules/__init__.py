"""For schedules, and the times of their cron lines."""
