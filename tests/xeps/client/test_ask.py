"""Requests of a connection, and which stanzas are their answers."""

import asyncio
import re
from xml.etree.ElementTree import Element

import pytest
from harness.patience import TIMEOUT, until

from pubqueue_xeps.client.ask import IQ, PendingIqs
from pubqueue_xeps.wire.requests import IqRequest

QUESTION = IqRequest("get", "the archive", "<query xmlns='urn:xmpp:mam:2'/>")
ETL = "etl@localhost"


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({"from": ETL}, True),
        ({}, True),  # RFC 6120, 8.1.2.1: as Prosody answers for the own account
        ({"from": "eve@localhost"}, False),
        ({"from": f"{ETL}/home"}, False),
        ({"from": ""}, False),
    ],
)
async def test_an_answer_is_of_whom_was_asked_or_without_an_address(given, answers):
    sent = []
    pending = PendingIqs(lambda data: sent.append(data) or True)
    asking = asyncio.create_task(pending.ask(ETL, QUESTION, TIMEOUT))
    await until(lambda: sent)
    name = re.search(rb"id='([^']+)'", sent[0])[1].decode()
    stanza = Element(IQ, {"type": "result", "id": name} | given)
    assert pending.read(stanza) is answers
    if answers:
        assert await asking is stanza
    asking.cancel()
