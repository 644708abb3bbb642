"""Labels of a node: a setting that is text, `name=value` on each line, in the order of the names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PUSHED: Final = "x-pubqueue-push"
"""The label of nodes whose items are pushed by the service; only the service itself writes it."""

MAX_LENGTH: Final = 32_768
"""Characters of all labels of a node."""

MAX_NAME_LENGTH: Final = 255
"""Characters of a name."""


class LabelError(ValueError):
    """Text that is not labels; the message says what is expected."""


def read(text: str) -> dict[str, str]:
    """Return labels by their names.

    Raises:
        LabelError: a line is not `name=value`, a name occurs twice, or there is too much.

    """
    if len(text) > MAX_LENGTH:
        raise LabelError(f"at most {MAX_LENGTH} characters")
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name or len(name) > MAX_NAME_LENGTH or not line.isprintable():
            raise LabelError("each line is name=value")
        if name in found:
            raise LabelError(f"{name!a} occurs twice")
        found[name] = value
    return found


def written(labels: Mapping[str, str]) -> str:
    """Return labels as the text of the setting."""
    return "\n".join(f"{name}={value}" for name, value in sorted(labels.items()))
