"""Flow control that faces share: limits on unanswered requests, fair turns for reads, and queues of notices to many addresses."""
