"""How tasks and the driver reach the service: options, requests, answers, refusals."""
