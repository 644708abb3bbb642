"""A folder of wheels in the place of a package index, for a machine that has no way to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from harness.machines.copied_machine import CopiedMachine

INDEX: Final = "/root/index"


def index(machine: CopiedMachine, folder: Path, *wheels: Path) -> None:
    """Have pip find these wheels and no others."""
    machine.does("mkdir", "-p", INDEX)
    for file in (*folder.iterdir(), *wheels):
        machine.does("sh", "-c", 'cat > "$0"', f"{INDEX}/{file.name}", given=file.read_bytes())
    pip = f"[global]\nno-index = true\nfind-links = {INDEX}\ndisable-pip-version-check = true\n"
    machine.does("rm", "-rf", "/root/.config/pip", "/root/.pip")  # this machine's own
    machine.does("sh", "-c", "cat > /etc/pip.conf", given=pip)
