"""Messages of assured service that are held: list them by account, and drop those of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import OTHER, doing
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.operations.clients import DROP, KEPT
from pubqueue.operations.model import count
from pubqueue.rules.messages import ListMessages

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.steps import Shown
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.records import KeptMessages
    from pubqueue.operations.model import Given


def _ask(by: Principal, _given: Given) -> Request:
    return ListMessages(by)


def _choose(page: KeptMessages, _given: Given) -> Shown:
    if not page.accounts:
        return Result("No messages are held.")
    options = tuple(
        (one.account, f"{one.account} ({count(one.messages, 'message')})") for one in page.accounts
    )
    account = DROP.parameter("account")
    fields = (
        Field(account.name, "list-single", account.label, options[0][:1], options),
        Field(OTHER + account.name, "text-single", "Or another account"),
    )
    return Form(DROP.label, DROP.about, fields)


COMMANDS: Final = (
    of(KEPT, doing(KEPT)),
    of(DROP, CommandStep(_ask, _choose), doing(DROP)),
)
