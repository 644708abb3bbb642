"""The users of a service under test: accounts of a face in this process, tables of a configuration, and a process that has them."""

from __future__ import annotations

import json
from functools import cache
from hashlib import scrypt, sha256
from typing import TYPE_CHECKING, Final

from harness.processes.program import PUBQUEUE, Program

from pubqueue.accounts import credentials
from pubqueue.accounts.accounts import Accounts
from pubqueue.accounts.credentials import Principals, Scrypt, User
from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SERVICE: Final = Jid("queue.localhost")
"""The domain of the service."""
RIGHT: Final = "correct horse battery staple"
"""The password of each user."""
SALT: Final = bytes(16)
CHEAP: Final = Scrypt(1, 1, 1, SALT, scrypt(RIGHT.encode(), salt=SALT, n=2, r=1, p=1, dklen=32))
"""It for users that are in no configuration, which would refuse a comparison that costs so little."""


def users_for(
    face: str, names: Sequence[str] = ("etl", "bee"), tokens: Mapping[str, str] | None = None
) -> list[User]:
    """Return users who may log in at a face, by password or by a token, and one who may not."""
    digests = {name: frozenset({digest(token)}) for name, token in (tokens or {}).items()}
    here = [
        User(name, password=CHEAP, tokens=digests.get(name, frozenset()), faces=frozenset({face}))
        for name in names
    ]
    return [*here, User("elsewhere", password=CHEAP, faces=frozenset({"page"}))]


def accounts_of(users: Iterable[User], welcome: Sequence[str] = ()) -> Accounts:
    """Return the accounts of a service with these users; those of `welcome` may create nodes as local ones may."""
    principals = Principals(home="localhost")
    principals.welcome(Jid(f"{name}@{SERVICE}") for name in welcome)
    return Accounts(users, principals, SERVICE)


def digest(token: str) -> str:
    """Return a token as a configuration has it."""
    return sha256(token.encode()).hexdigest()


@cache
def _password() -> str:
    return credentials.make(RIGHT).text


def table(name: str, *, token: str = "", **fields: object) -> str:
    """Return the table of a user with this token, or else with the password."""
    proof = {"token_sha256": [digest(token)]} if token else {"password": _password()}
    lines = (
        f"{key} = {json.dumps(value)}" for key, value in ({"name": name} | proof | fields).items()
    )
    return "\n".join(["", "[[user]]", *lines, ""])


class OwnService(Program):
    """`pubqueue serve` without XMPP, with a store and users of its own: a context manager, which may be ended in any way and started again."""

    def __init__(
        self,
        folder: Path,
        tables: str,
        *,
        top: str = "",
        store: str = "",
        command: Sequence[str | Path] = (PUBQUEUE,),
    ) -> None:
        self.path = folder / "pubqueue.toml"
        place = store or f"sqlite:///{folder / 'pubqueue.db'}"
        self.write(f'jid = "{SERVICE}"\nserver = ""\nstore = "{place}"\n{top}\n{tables}')
        super().__init__(self.path, command)

    def write(self, text: str) -> None:
        """Write the configuration, for its owner alone."""
        self.path.write_text(text)
        self.path.chmod(0o600)

    def place(self, listening: re.Pattern[str]) -> tuple[str, int]:
        """Return where it has listened last, by the lines of its log."""
        host, port = listening.findall(self.log)[-1]
        return host, int(port)
