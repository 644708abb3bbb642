"""Settings from environment variables: `PUBQUEUE_` and the key in capitals, with the table's name before a table's key.

Lists are written with commas, nodes as JSON. An empty variable counts as not set. A variable that is not one of our
keys is reported (`cli.unread`) and then ignored, because container managers set variables of their own under a
service's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import ValidationError

from pubqueue.config.errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX: Final = "PUBQUEUE_"

Path = tuple[str, ...]


class BadVariableError(Exception):
    """A variable has a value that does not fit its key; the message is one sentence for the operator.

    Facts: `variable` is its name, and `key` its setting, with dots.
    """

    def __init__(self, variable: str, key: str, why: object) -> None:
        super().__init__(f"{variable}: {why}")
        self.variable, self.key = variable, key


def variables(kind: type[msgspec.Struct], within: Path = ()) -> Iterator[tuple[str, Path, Any]]:
    """Yield each variable, the path of its key, and the key's type."""
    for field in msgspec.structs.fields(kind):
        path = (*within, field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from variables(field.type, path)
        else:
            yield PREFIX + "_".join(path).upper(), path, field.type


def given(kind: type[msgspec.Struct], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the environment, with tables nested as in a file.

    Raises:
        BadVariableError: a value does not fit its key.

    """
    found: dict[str, Any] = {}
    for name, path, key_type in variables(kind):
        text = environment.get(name)
        if not text:
            continue
        table = found
        for step in path[:-1]:
            table = table.setdefault(step, {})
        try:
            table[path[-1]] = _value(text, key_type)
        except (ValidationError, msgspec.DecodeError) as problem:
            words = (
                explained(problem, key_type) if isinstance(problem, ValidationError) else problem
            )
            raise BadVariableError(name, ".".join(path), words) from None
    return found


def _value(text: str, key_type: Any) -> Any:  # noqa: ANN401  # a type, and what is of it
    if key_type == tuple[str, ...]:
        return [name for part in text.split(",") if (name := part.strip())]
    if getattr(key_type, "__origin__", None) in {tuple, dict}:
        return msgspec.to_builtins(msgspec.json.decode(text, type=key_type))
    return msgspec.to_builtins(msgspec.convert(text, key_type, strict=False))
