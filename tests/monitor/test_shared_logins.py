"""A login to the page holds on each instance and over restarts, without an XMPP server too: the store keeps its secret."""

import asyncio
import re
from contextlib import AsyncExitStack

import pytest
from aiohttp import ClientSession, CookieJar
from harness.patience import TIMEOUT
from harness.servers.users import OwnService, table

TOKEN = "a-token-that-opens-the-page"
ON_PAGE = re.compile(r"event=http\.listening .*?host=(\S+) port=(\d+)")


def instance(folder, name, store):
    own = folder / name
    own.mkdir()
    tables = f'[stomp]\nlisten = "127.0.0.1:0"\n{table("anna", token=TOKEN, roles=["admin"])}'
    return OwnService(own, tables, top='http = "127.0.0.1:0"', store=store)


def at(service, path):
    host, port = service.place(ON_PAGE)
    return f"http://{host}:{port}{path}"


async def shown(session, service):
    """Return the form's token on the page, or None if it asks for a login."""
    async with session.get(at(service, "/ui/"), allow_redirects=False) as answer:
        text = await answer.text()
        return text.split('name="form" value="')[1].partition('"')[0] if answer.ok else None


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_login_holds_on_the_other_instance_and_after_a_restart(tmp_path, request, kind):
    store = f"sqlite:///{tmp_path / 'q.db'}"
    if kind == "postgres":
        store = request.getfixturevalue("postgres").address
    one, other = (instance(tmp_path, name, store) for name in ("one", "other"))
    async with asyncio.timeout(TIMEOUT), AsyncExitStack() as ends:
        for service in (one, other):
            await ends.enter_async_context(service)
        session = await ends.enter_async_context(ClientSession(cookie_jar=CookieJar(unsafe=True)))
        login = session.post(at(one, "/ui/login"), data={"password": TOKEN}, allow_redirects=False)
        async with login as answer:
            assert answer.status == 303
        form = await shown(session, one)
        assert form is not None
        for _ in range(2):
            assert [await shown(session, each) for each in (other, one)] == [form, form]
        await one.stop()
        await one.start()
        assert await shown(session, one) == form
