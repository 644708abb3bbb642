"""Where a worker finds its queue: a URL, as an argument or in the environment, and a password, in the environment alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLE = "xmpp://bot@example.org/queue.example.org"


def connection(url: str | None, node: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a Worker that say where it connects; raises ValueError, in one sentence."""
    url = url or environment.get("PUBQUEUE_URL")
    if not url:
        raise ValueError(f"No URL: give --url, or set PUBQUEUE_URL; {EXAMPLE} is one.")
    parts = urlsplit(url)
    account, _, domain = parts.netloc.rpartition("@")
    service, more = unquote(parts.path.lstrip("/")), dict(parse_qsl(parts.query))
    if parts.scheme != "xmpp" or not account or not domain or not service:
        raise ValueError(f"The URL is not of the form {EXAMPLE}.")
    if ":" in account:
        raise ValueError("The URL has a password in it; put it into PUBQUEUE_PASSWORD.")
    if unknown := more.keys() - {"host", "port", "tls", "ca_file", "node"}:
        raise ValueError(f"The URL has {min(unknown)!r}, which means nothing there.")
    found: dict[str, Any] = {"port": 5222} | more
    found["node"] = node or more.get("node") or ""
    found["port"] = int(found["port"])
    address = {"jid": f"{unquote(account)}@{domain}", "service": service}
    return found | address | {"password": _password(environment)}


def _password(environment: Mapping[str, str]) -> str:
    if password := environment.get("PUBQUEUE_PASSWORD"):
        return password
    if not (path := environment.get("PUBQUEUE_PASSWORD_FILE")):
        raise ValueError("No password: set PUBQUEUE_PASSWORD or PUBQUEUE_PASSWORD_FILE.")
    try:
        return Path(path).read_text("utf-8").splitlines()[0]
    except (OSError, UnicodeError, IndexError):
        raise ValueError(f"The file {path} of PUBQUEUE_PASSWORD_FILE has no password.") from None
