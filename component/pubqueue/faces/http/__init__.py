"""HTTP: a host with the limits and TLS of a listener, and parts that are mounted on it."""

from pubqueue.faces.http.host import BOUNDS, HttpHost, Part

__all__ = ["BOUNDS", "HttpHost", "Part"]
