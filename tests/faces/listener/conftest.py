"""Each test with a loop runs on both: the service has uvloop's, or asyncio's where that is not installed."""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
