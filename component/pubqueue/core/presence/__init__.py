"""Addresses that become available or unavailable, and deliveries that bounce."""
