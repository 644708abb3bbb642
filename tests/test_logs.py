"""How log lines are written: one line each, in either form, those of libraries too."""

import json
import logging
import sys

import pytest
import structlog
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

from pubqueue import logs

LIBRARIES = logs.LIBRARIES


@pytest.fixture
def lines(capsys):
    def read():
        return capsys.readouterr().err.splitlines()

    yield read
    structlog.reset_defaults()
    logging.getLogger().removeHandler(LIBRARIES)


def speak():
    log = structlog.get_logger("pubqueue.test")
    log.debug("not.written")
    log.info("node.changed", node='jo"bs', why="two\nlines")
    logging.getLogger("slixmpp").info("not written")
    logging.getLogger("slixmpp").warning("cannot %s", "connect")
    try:
        int("x")
    except ValueError:
        log.exception("request.failed")


def test_as_an_object_a_line(lines):
    logs.configure("info", "json")
    speak()
    own, theirs, fault = map(json.loads, lines())
    assert own.pop("timestamp")
    assert own == {
        "level": "info",
        "event": "node.changed",
        "node": 'jo"bs',
        "why": "two\nlines",
    }
    assert (theirs["level"], theirs["name"], theirs["says"]) == (
        *("warning", "slixmpp", "cannot connect"),
    )
    assert "ValueError: invalid" in fault["exception"]


def test_as_keys_and_values(lines):
    logs.configure("info")
    logs.configure("info", "logfmt")
    speak()
    own, theirs, fault = lines()
    assert own.endswith(r'level=info event=node.changed node="jo\"bs" why=two\nlines')
    assert theirs.endswith('level=warning event=library name=slixmpp says="cannot connect"')
    assert "level=error event=request.failed" in fault


def test_an_invalid_log_record_of_a_library_costs_its_line_only(lines):
    logs.configure("info")
    record = {"name": "slixmpp", "levelno": 30, "msg": "%d of %d", "args": ("one",)}
    LIBRARIES.handle(logging.makeLogRecord(record))
    (line,) = lines()
    assert line.endswith('says="%d of %d"')


IN_COLOUR = """
import atexit, sys
from pubqueue.cli import COLOURED, main
def tell():
    print(sorted({"pygments", "rich"} & sys.modules.keys()), file=sys.stderr)
for name in set(main.list_commands(None)) - COLOURED:
    main.get_command(None, name)
tell()
atexit.register(tell)
main()
"""


async def test_nothing_that_draws_in_colour_is_imported_for_a_log_without_colour(tmp_path):
    """Neither for a command that may have no table to draw, nor while the service runs."""
    async with StubServer() as server:
        config = write_config(tmp_path, server)
        async with Program(config, (sys.executable, "-Ic", IN_COLOUR)) as program:
            pass
    first, *_, last = program.log.splitlines()
    assert (first, last) == ("[]", "[]")
