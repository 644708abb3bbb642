"""What a reload does to users, and to those who are logged in."""

import asyncio
import re

from config.files import DIGEST, PASSWORD, RIGHT, TOKEN
from harness.batches.toy_face import LineFace
from harness.patience import TIMEOUT
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Bearer, Plain, Role
from pubqueue.config import nodes
from pubqueue.config.reloading import Reloader
from pubqueue.config.settings import NodeSettings, Settings, UserSettings
from pubqueue.engine.ports import StoreError, UnreachableStoreError
from pubqueue.faces.table import Row
from pubqueue.wiring.serving import serve


async def prove(accounts, given, face="line"):
    async with asyncio.timeout(TIMEOUT):
        return await accounts.prove(given, face=face, peer="192.0.2.1")


async def test_a_reload_adopts_users_and_calls_observers(monkeypatch):
    found, ready, taken = [], asyncio.Event(), asyncio.Event()

    def made(broker, _settings, accounts, on_ready):
        found.append(accounts)
        return LineFace(broker, on_ready)

    monkeypatch.setattr("pubqueue.wiring.faces.FACES", {"line": Row(make=made)})
    etl = UserSettings("etl", password=PASSWORD, token_sha256=(DIGEST,))
    before = Settings(jid="queue.example.org", secret="s", store="memory:", user=(etl,))
    after = replace(before, user=(UserSettings("etl", password=PASSWORD, roles=(Role.ADMIN,)),))
    stop, asked = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(before, stop=stop, on_ready=ready.set, reloader=Reloader(asked, lambda: after))
    )
    async with asyncio.timeout(TIMEOUT):
        await ready.wait()
        (accounts,) = found
        accounts.watch(taken.set)
        by_password = await prove(accounts, Plain("etl", RIGHT))
        by_token = await prove(accounts, Bearer(TOKEN))
        assert isinstance(by_password, Proven)
        assert accounts.holds(by_token)
        assert not accounts.principals.of(by_token.account).admin
        with capture_logs() as logs:
            asked.set()
            await taken.wait()
        assert accounts.holds(by_password)
        assert not accounts.holds(by_token)
        assert accounts.principals.of(by_password.account).admin
        assert {"event": "config.read", "taken_over": "user", "log_level": "info"} in logs
        stop.set()
        await serving


async def test_a_reload_while_the_store_fails_is_finished_when_it_is_back(monkeypatch, capsys):
    """It is not taken for a mistake in the file, and ends neither the service nor a connection."""
    ready, stop, asked, done = (asyncio.Event() for _ in range(4))
    failures = [StoreError("database or disk is full"), UnreachableStoreError("Connection refused")]
    whole = nodes.bring_nodes

    async def bring_nodes(*given):
        if failures:
            raise failures.pop()
        await whole(*given)
        done.set()

    line = Row(make=lambda broker, _settings, _accounts, on_ready: LineFace(broker, on_ready))
    monkeypatch.setattr("pubqueue.wiring.faces.FACES", {"line": line})
    monkeypatch.setattr("pubqueue.config.reloading.RETRY", 0)
    before = Settings(jid="queue.example.org", secret="s", store="memory:")
    after = replace(before, node=(NodeSettings("jobs", queueing=True),))
    serving = asyncio.create_task(
        serve(before, stop=stop, on_ready=ready.set, reloader=Reloader(asked, lambda: after))
    )
    async with asyncio.timeout(TIMEOUT):
        await ready.wait()
        monkeypatch.setattr(nodes, "bring_nodes", bring_nodes)
        asked.set()
        await done.wait()
        stop.set()
        await serving
    logged = re.findall(
        "event=(store.unreachable|config.refused|node.made|service.st[a-z]+)",
        capsys.readouterr().err,
    )
    assert logged == [
        *["store.unreachable"] * 2,
        "node.made",
        "service.stopping",
        "service.stopped",
    ]
