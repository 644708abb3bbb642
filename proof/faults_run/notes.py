"""How far the workers are, by the histories that they write while they work: a history outlives its writer, for the machine is not what dies."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(slots=True)
class Notes:
    """What all workers have written so far. `results` counts how often the work of each item was done, just before its retract."""

    folder: Path
    redelivered: int = 0
    late: int = 0
    gone: int = 0
    results: Counter[str] = field(default_factory=Counter)
    _read: Counter[Path] = field(default_factory=Counter)

    def path(self, who: str) -> Path:
        """Return where a client writes its history."""
        return self.folder / f"{who}.jsonl"

    @property
    def histories(self) -> list[Path]:
        """What all clients have written."""
        return sorted(self.folder.glob("*.jsonl"))

    def read(self) -> None:
        """Take in what is new."""
        for path in self.histories:
            with path.open("rb") as file:
                file.seek(self._read[path])
                for line in file:
                    if line.endswith(b"\n"):
                        self._read[path] += len(line)
                        self._take(json.loads(line))

    def _take(self, op: dict[str, Any]) -> None:
        match op["op"], op.get("result"):
            case "deliver", _:
                self.redelivered += op.get("attempt", 1) > 1
            case "retract", "invoke":
                self.results[op["id"]] += 1
            case "retract", "fail":
                self.late += 1
            case "retract", "unknown":
                self.gone += 1
            case _:
                pass
