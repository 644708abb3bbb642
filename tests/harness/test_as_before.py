"""A test leaves nothing of a program behind that it has run in its own process."""

import gc
import logging
import os

import pytest
import structlog
from click.testing import CliRunner
from harness.as_before import process_as_before

from pubqueue import logs
from pubqueue.cli import main
from pubqueue.wiring.serving import collect_less_often


def state():
    loggers = [logging.getLogger(name) for name in (None, "slixmpp")]
    return (
        structlog.is_configured(),
        structlog.get_config(),
        [(logger.level, list(logger.handlers)) for logger in loggers],
        dict(os.environ),
        gc.get_threshold(),
    )


@pytest.fixture
def a_process_that_has_set_nothing():
    with process_as_before():
        structlog.reset_defaults()  # of a service that runs for all tests of this process
        yield


@pytest.mark.usefixtures("a_process_that_has_set_nothing")
def test_what_a_program_sets_for_its_process_is_put_back():
    before = state()
    with process_as_before():
        logs.configure("error")
        collect_less_often()
        said = CliRunner().invoke(main, ["worker", "--quiet", "--url", "nowhere", "no:where"])
        assert said.exit_code == 2
        each = zip(state(), before, strict=True)
        assert [now != then for now, then in each] == [True] * 5, "else this test shows nothing"
    assert state() == before


def test_a_new_logger_keeps_what_its_module_has_set():
    with process_as_before():
        logging.getLogger("harness.new").setLevel(logging.CRITICAL)
    assert logging.getLogger("harness.new").level == logging.CRITICAL
