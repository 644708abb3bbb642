"""What operators and their programs ask over HTTP: metrics for Prometheus, health, readiness."""
