"""Calls operations over HTTP, as scripts do: by token or password, without any state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.operators.browser import CHANGE, LOOK
from harness.operators.page_service import user

from pubqueue.accounts import credentials
from pubqueue.accounts.credentials import Role, User

if TYPE_CHECKING:
    from aiohttp import ClientSession

RULE, OWN = "does-everything-there-is", "owns-some-nodes-of-its-own"
"""Tokens of an administrator, and of a user without a role."""

PASSWORD: Final = "correct horse"

USERS: Final = (
    user("looker", LOOK, Role.VIEWER),
    user("changer", CHANGE, Role.OPERATOR),
    user("ruler", RULE, Role.ADMIN),
    user("owner", OWN),
    User("anna", password=credentials.make(PASSWORD), roles=frozenset({Role.OPERATOR})),
)


class Answer:
    """An answer that has been read."""

    def __init__(self, status: int, headers: Any, body: bytes, value: Any) -> None:
        self.status, self.headers, self.body, self.json = status, headers, body, value

    @property
    def detail(self) -> str:
        """The sentence of a problem."""
        assert self.headers["Content-Type"] == "application/problem+json", self.body
        assert self.json["status"] == self.status
        assert self.json["type"].startswith("urn:x-pubqueue:problem:")
        return str(self.json.get("detail", ""))


class Caller:
    """Calls a service at a place."""

    def __init__(self, place: str, session: ClientSession) -> None:
        self.place, self.session = place, session

    async def call(self, method: str, path: str, token: str | None = LOOK, **words: Any) -> Answer:
        """Send one request; with a token, as its user."""
        headers = dict(words.pop("headers", {}))
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token}")
        url = f"{self.place}/api/{path}"
        async with self.session.request(
            method, url, headers=headers, allow_redirects=False, **words
        ) as answer:
            body = await answer.read()
            has_json = "json" in answer.headers.get("Content-Type", "") and body
            value = await answer.json(content_type=None) if has_json else None
            return Answer(answer.status, answer.headers, body, value)

    async def get(self, path: str, token: str | None = LOOK, **words: Any) -> Answer:
        """Call an operation that reads."""
        return await self.call("GET", path, token, **words)

    async def post(self, path: str, value: Any, token: str | None = CHANGE, **words: Any) -> Answer:
        """Call an operation that changes; the parameters are a JSON object."""
        return await self.call("POST", path, token, json=value, **words)
