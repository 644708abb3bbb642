"""For schedules, and the times that their cron lines name."""
