"""The service is killed between any two steps: both interfaces keep their word, and links hold over the kill."""

from contextlib import asynccontextmanager

import httpx
import pytest
from faces.kill_contract import Delivery, GoneError, Promise, SharedKillContract, jobs
from faces.rest.clients import follow, links
from faces.rest.hornetq.steps import FORM, lead, msg
from faces.rest.served.service import DOMAIN, RestService


class RestHand:
    """Posts each item by a one-off link, and acknowledges by the link that the message has. Links outlive the service."""

    profile = "rest"

    def __init__(self, service, client, number, memory):
        self._root = service.root.removesuffix("/rest")
        self.client, self.number, self.memory = client, number, memory

    @classmethod
    @asynccontextmanager
    async def connected(cls, service, name, number, memory):
        root = service.root.replace("/rest", f"/{cls.profile}")
        try:
            async with service.client(name, base_url=root) as client:
                yield cls(service, client, number, memory)
        except httpx.TransportError as problem:
            raise GoneError from problem

    async def at(self, key, found):
        """Return what is remembered under this key, or was found now, at the instance that is there now."""
        if key not in self.memory:
            self.memory[key] = httpx.URL(await found()).raw_path.decode()
        return self._root + self.memory[key]

    async def publish(self, text, group):
        async def begun():
            to = await follow(self.client, "/queues/jobs", "post-message-once")
            return links(await self.client.post(to))["create-next"]

        where = await self.at(text, begun)
        headers = {"Message-Group": group}
        sent = await self.client.post(where, content=text, headers=headers)
        assert sent.status_code in {200, 405}, sent

    async def take(self):
        consumer = await follow(self.client, "/queues/jobs", "consumer")
        message = await self.client.post(consumer, headers={"Accept-Wait": "1"})
        return self.delivered(message, links, message.headers.get("Message-Id"))

    def delivered(self, message, links_of, key):
        """Return what came, if anything did."""
        if message.status_code != httpx.codes.OK:
            assert message.status_code == httpx.codes.SERVICE_UNAVAILABLE, message
            return None
        where = httpx.URL(links_of(message)["acknowledgement"]).raw_path.decode()
        return Delivery(message.text, key, where)

    async def settle(self, delivery):
        where = self._root + delivery.handle
        done = await self.client.post(where, data={"acknowledge": "true"})
        assert done.status_code in {204, 405, 412}, "the link holds over the kill"
        if done.status_code == httpx.codes.NO_CONTENT:
            self.memory.setdefault("acknowledged", []).append(delivery.text)
        return done.status_code != httpx.codes.PRECONDITION_FAILED


class HornetqHand(RestHand):
    """Creates each message under an id, and pulls from a consumer that outlives the service."""

    profile = "hornetq"

    async def publish(self, text, group):
        template = await lead(self.client, "/queues/jobs", "create-with-id")
        where, headers = template.replace("{id}", f"id-{text}"), {"Message-Group": group}
        sent = await self.client.post(where, content=text, headers=headers)
        assert sent.status_code == httpx.codes.CREATED, sent

    async def take(self):
        async def made():
            to = await lead(self.client, "/queues/jobs", "pull-consumers")
            answer = await self.client.post(to, data={"autoAck": "false"})
            return msg(answer)["acknowledge-next"]

        following = await self.at(f"consumer {self.number}", made)
        message = await self.client.post(following, headers={"Accept-Wait": "1"})
        return self.delivered(message, msg, message.text)

    async def settle(self, delivery):
        where = self._root + delivery.handle
        done = await self.client.post(where, content="acknowledge=true", headers=FORM)
        assert done.status_code in {204, 412}, "the link holds over the kill"
        return done.status_code != httpx.codes.PRECONDITION_FAILED


class TestRest(SharedKillContract):  # R07, R10, R21, W01, W02, W03
    connect = staticmethod(RestHand.connected)
    PROMISE = Promise(holds=True)
    REQUESTS = ("Publish", "Take", "Settle")
    MANY = 50

    @pytest.fixture
    def make_service(self):
        return lambda folder, store: RestService(folder, nodes=jobs(DOMAIN), store=store)

    def also(self, trade, found):
        acknowledged = trade.memory.get("acknowledged", [])
        assert len(acknowledged) == len({*acknowledged}), "there is one 204 for each"


class TestHornetq(TestRest):  # H04, H15, W02
    connect = staticmethod(HornetqHand.connected)
