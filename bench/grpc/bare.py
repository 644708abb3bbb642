"""`python -m bench.grpc.bare PORT`: a minimal handler of grpc.aio, which reads the messages and answers with their ids."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import grpc

from bench.stomp.thin import HOST
from pubqueue.faces.grpc.server import OPTIONS
from pubqueue.faces.grpc.wire import v1


async def publish(request: v1.PublishRequest, _context: Any) -> v1.PublishResponse:
    """Answer with an id for each message."""
    return v1.PublishResponse(
        message_ids=[f"{number:024}" for number in range(len(request.messages))]
    )


async def serve(port: int) -> None:
    """Serve until the process ends."""
    server = grpc.aio.server(options=OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(
        publish,
        request_deserializer=v1.PublishRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    service = grpc.method_handlers_generic_handler(
        "google.pubsub.v1.Publisher", {"Publish": handler}
    )
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    """Serve, on the loop that the service has."""
    run = asyncio.run
    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415  # where it is installed

        run = uvloop.run
    with suppress(KeyboardInterrupt):
        run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
