"""The parameters of an operation, as text: each with its values."""

from __future__ import annotations


class Given(dict[str, tuple[str, ...]]):
    """The values filled in so far, by field."""

    def one(self, var: str) -> str:
        """Return the value of a field, stripped; empty if there is none."""
        values = self.get(var, ())
        return values[0].strip() if values else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the lines of a field, each once, without those that are empty."""
        stripped = (line.strip() for line in self.get(var, ()))
        return tuple(dict.fromkeys(line for line in stripped if line))

    def says_yes(self, var: str) -> bool:
        """Return whether a boolean was set."""
        return self.one(var) in {"1", "true"}

    def number(self, var: str) -> int | None:
        """Return a whole number; None if there is none. `fit` has checked that it is one."""
        text = self.one(var)
        return int(text) if text else None
