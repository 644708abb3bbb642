"""Commands about pushes."""
