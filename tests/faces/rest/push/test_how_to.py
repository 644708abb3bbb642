"""The how-to on pushes: its program verifies real pushes, and its settings are real."""

import re
import tomllib
from pathlib import Path

import msgspec
from faces.rest.push.hooks import Hook, pushing, register
from faces.rest.star.steps import post

from pubqueue.faces.rest.settings import RestSettings

PAGE = Path(__file__).parents[4] / "docs/how-to/rest-push.md"


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


async def test_the_program_verifies_a_push():  # W24
    program = {}
    exec(block("python"), program)  # the page's own program
    is_genuine = program["is_genuine"]
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        secret = (await register(bee, hook.url)).json()["secret"]
        await post(etl, b"a")
        request, body = await hook.next()
        headers = dict(request.headers)
        assert is_genuine(secret, headers, body)
        assert not is_genuine(secret, headers, body + b"x")
        assert not is_genuine("whsec_AAAA", headers, body)
        for name, value in (("webhook-id", "other"), ("webhook-timestamp", "1")):
            assert not is_genuine(secret, headers | {name: value}, body)


def test_the_settings_are_read():
    table = tomllib.loads(block("toml"))["rest"]
    rest = msgspec.convert(table, RestSettings)
    (target,) = rest.push.push_to
    assert target.host == "hooks.example.org"
