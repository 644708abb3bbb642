"""The service as tasks and driver reach it: options, requests, answers, refusals."""
