"""Registrations of pushes: list them, disable, enable and end one."""

from __future__ import annotations

from typing import Final

from pubqueue.faces.xmpp.commands.operation_forms import choosing, doing
from pubqueue.faces.xmpp.commands.steps import of
from pubqueue.operations.clients import DISABLE, ENABLE, END, REGISTRATIONS

COMMANDS: Final = (
    of(REGISTRATIONS, doing(REGISTRATIONS)),
    *(choosing(one) for one in (DISABLE, ENABLE, END)),
)
