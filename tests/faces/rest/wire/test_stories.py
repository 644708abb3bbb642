"""The examples of the posts on REST-* Messaging, and others, byte for byte on the wire."""

import base64
from urllib.parse import urlsplit

import pytest
from faces.rest.clients import TOKEN
from faces.rest.wire.story import STORIES, tell
from harness.servers.users import RIGHT

BASIC = base64.b64encode(f"etl:{RIGHT}".encode()).decode()


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
async def test_it_gets_an_answer(rest, story):  # R04, R05, R15, R16, R17, R18, R20, R21, R25
    await rest.make("myqueue", backoff_min=0)
    await rest.make("mytopic", queueing=False)
    at = urlsplit(rest.root)
    who = {"etl": f"Basic {BASIC}", "bee": f"Bearer {TOKEN}"}
    await tell(story.read_text(), at.hostname, at.port, **who)
