"""What a program that has not set up logging is told, as sentences on standard error."""

import ast
import io
import logging
import sys
from pathlib import Path
from string import Formatter

import pytest
import structlog

from pubqueue_xeps import sentences
from pubqueue_xeps.log import log
from pubqueue_xeps.sentences import SENTENCES, STANDARD_ERROR, show, wanted


def test_it_is_wanted_where_no_server_listens(unset):
    assert wanted()
    with STANDARD_ERROR.reporting():
        assert wanted()  # by a second worker


def test_not_where_logging_is_set_up(unset):
    sentences.ROOT.handlers.append(logging.NullHandler())
    assert not wanted()


def test_not_where_our_logger_has_a_handler(unset, monkeypatch):
    monkeypatch.setattr(logging.getLogger("pubqueue_xeps"), "handlers", [logging.NullHandler()])
    assert not wanted()


def test_not_where_structlog_is_set_up(unset):
    structlog.configure()
    assert not wanted()


def test_not_where_quiet_is_asked_for(unset, monkeypatch):
    monkeypatch.setenv("PUBQUEUE_QUIET", "1")
    assert not wanted()


def test_events_are_reported_once_however_many_workers_there_are(unset, capsys):
    with STANDARD_ERROR.reporting(), STANDARD_ERROR.reporting():
        log.info("worker.subscribed", jid="bot@x/1", node="jobs", service="q.x", requests=10)
    log.info("worker.stopping", in_hand=3)
    expected = "pubqueue: connected as bot@x/1 to jobs at q.x, 10 at a time\n"
    assert capsys.readouterr().err == expected
    assert logging.getLogger("pubqueue_xeps").level == logging.NOTSET


def test_a_level_alone_does_not_make_a_program_without_a_worker_talk(unset, capsys):
    logger = logging.getLogger("pubqueue_xeps")
    logger.setLevel(logging.DEBUG)
    log.info("worker.closed")
    logger.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == ""


def test_a_program_without_a_worker_gets_sentences_for_what_is_wrong(unset, capsys):
    log.info("publisher.resumed", msg_id="m1", level=1)
    log.warning("publisher.dead_already", node="jobs", id="fish")
    expected = "pubqueue: published again, but dead: fish of jobs; no worker gets it until an owner redrives it\n"
    assert capsys.readouterr().err == expected


def test_quiet_and_structlog_keep_the_warnings_as_log_lines(unset, capsys, monkeypatch):
    structlog.configure()
    log.warning("publisher.dead_already", node="jobs", id="fish")
    structlog.reset_defaults()
    monkeypatch.setenv("PUBQUEUE_QUIET", "1")
    log.info("publisher.resumed", msg_id="m1", level=1)
    log.warning("publisher.dead_already", node="jobs", id="fish")
    line = "event=publisher.dead_already node=jobs id=fish\n"
    assert capsys.readouterr().err == line * 2


@pytest.mark.parametrize("problem", [BrokenPipeError, ValueError])
def test_work_goes_on_though_nobody_reads_what_is_said(unset, monkeypatch, problem):
    """So a worker whose terminal is gone ends when it is asked to."""

    class Gone(io.StringIO):
        def write(self, _text):
            raise problem

    monkeypatch.setattr(sys, "stderr", Gone())
    with STANDARD_ERROR.reporting():
        log.info("worker.stopping", in_hand=3)
        log.error("item.failed", id="i1", node="jobs", error="x", exc_info=ZeroDivisionError())
    show("done")


def test_of_other_events_only_warnings_are_logged(unset, capsys):
    with STANDARD_ERROR.reporting():
        log.info("item.given_back", id="i1")
        log.warning("item.released", id="i1")
    expected = "pubqueue: released at the end, unfinished: i1 of ?\n"
    assert capsys.readouterr().err == expected


def test_a_failure_is_logged_with_its_traceback(unset, capsys):
    with STANDARD_ERROR.reporting():
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            log.exception("item.failed", id="i1", node="jobs", error="ZeroDivisionError")
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first == "pubqueue: failed: i1 of jobs (ZeroDivisionError)"
    assert second == "Traceback (most recent call last):"
    assert last == "ZeroDivisionError: division by zero"


def test_nothing_is_printed_once_logging_is_set_up(unset, capsys):
    with STANDARD_ERROR.reporting():
        sentences.ROOT.handlers.append(logging.NullHandler())
        log.warning("worker.disconnected", why="x")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_no_escape_commands(capsys):
    show("\x1b[2J i1\n")
    assert capsys.readouterr().err == "pubqueue: \ufffd[2J i1\ufffd\n"


LEVELS = ("warning", "error", "exception")


def logged():
    """Return each event that the library logs, with its level and the names of its facts."""
    for file in sorted(Path(sentences.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[event]
                ):
                    assert isinstance(event, ast.Constant), (
                        f"{file.name} makes the name of an event"
                    )
                    yield event.value, level, {fact.arg for fact in call.keywords}


def test_whatever_is_wrong_has_a_sentence_and_the_facts_for_it():
    events = list(logged())
    assert len(events) > 20
    assert {event for event, level, _ in events if level in LEVELS} <= set(SENTENCES)
    assert set(SENTENCES) <= {event for event, _, _ in events}
    for event, level, facts in events:
        if level in LEVELS or event == "worker.subscribed":
            named = {name for _, name, _, _ in Formatter().parse(SENTENCES[event]) if name}
            assert named <= facts, event
