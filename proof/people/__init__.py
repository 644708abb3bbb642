"""Thousands of questions, answered by people whose clients die, while the bot, the service and the server are killed."""
