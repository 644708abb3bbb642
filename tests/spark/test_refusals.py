import xml.etree.ElementTree as ET

import pytest

from pubqueue_spark.client.refusals import (
    BY_CONDITION,
    BY_TYPE,
    Verdict,
    explanation,
    failure,
    judge,
)
from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_xeps.wire.refusals import Refusal, read
from pubqueue_xeps.wire.requests import IqRequest

STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
ERRORS = "http://jabber.org/protocol/pubsub#errors"


def answer(inner):
    return ET.fromstring(f"<iq xmlns='jabber:client' type='error' id='1'>{inner}</iq>")


def test_an_error_is_read_with_its_condition_detail_and_text():
    iq = answer(
        f"<pubsub xmlns='http://jabber.org/protocol/pubsub'/><error type='modify'>"
        f"<not-acceptable xmlns='{STANZAS}'/><text xmlns='{STANZAS}'>65 kB at most.</text>"
        f"<payload-too-big xmlns='{ERRORS}'/></error>"
    )
    assert read(iq) == Refusal("modify", "not-acceptable", "payload-too-big", "65 kB at most.")


@pytest.mark.parametrize("inner", ["", "<error/>"])
def test_an_empty_error_is_not_a_success(inner):
    assert read(answer(inner)) == Refusal("cancel", "undefined-condition")
    assert judge(read(answer(inner))) is Verdict.FATAL


def test_the_table_defines_what_is_done():
    assert {kind: judge(Refusal(kind, "anything")) for kind in (*BY_TYPE, "new")} == {
        "wait": Verdict.RETRY,
        "modify": Verdict.ROW,
        "auth": Verdict.FATAL,
        "cancel": Verdict.FATAL,
        "new": Verdict.FATAL,
    }
    assert {name: judge(Refusal("cancel", name)) for name in BY_CONDITION} == {
        "conflict": Verdict.ROW,
        "not-acceptable": Verdict.ROW,
        "payload-too-big": Verdict.ROW,
        "invalid-payload": Verdict.ROW,
        "node-full": Verdict.RETRY,
        "max-items-exceeded": Verdict.FEWER,
    }


def test_a_full_disk_is_waited_for_and_a_fault_of_the_service_is_not():
    verdicts = {kind: judge(Refusal(kind, "internal-server-error")) for kind in ("wait", "cancel")}
    assert verdicts == {"wait": Verdict.RETRY, "cancel": Verdict.FATAL}


def test_a_full_node_is_waited_for_though_it_is_a_conflict():
    assert judge(Refusal("cancel", "conflict", "node-full")) is Verdict.RETRY


def test_a_failure_names_row_item_node_reason_and_remedy():
    publish = IqRequest("set", "row 7 of partition 2 (item 'order-7', node 'jobs')", "<secret/>")
    busy = Refusal("cancel", "conflict", text="item order-7 is in flight")
    row = failure(busy, publish, service="queue.localhost", retried=0)
    assert isinstance(row, RowError)
    assert str(row) == (
        "queue.localhost refused row 7 of partition 2 (item 'order-7', node 'jobs'): conflict, type"
        " cancel; item order-7 is in flight."
    )
    fatal = failure(
        Refusal("wait", "resource-constraint", text="Slow down."),
        publish,
        service="queue.localhost",
        retried=5,
    )
    assert isinstance(fatal, ServiceError)
    assert (
        "(item 'order-7', node 'jobs') after 5 retries: resource-constraint, type wait; Slow"
        in str(fatal)
    )


def test_more_than_may_be_staged_has_the_limit_and_the_options_that_split():
    text = "1000000 items of this account wait for a commit, and 1000000 may: commit or abort some first"
    assert explanation(Refusal("wait", "resource-constraint", text=text)) == (
        f"resource-constraint, type wait; {text}; write fewer rows in one batch: a stream by maxFilesPerTrigger,"
        " a job in pieces with a rising txnVersion, or let the service's operator raise [transactions]"
    )
