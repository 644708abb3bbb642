"""Words of other brokers: each that would change the meaning is read or refused, and every other one ends no connection."""

import re

import pytest
from faces.contract import stored
from faces.stomp.serving import ended, put
from harness.documents.documented import ROOT

from pubqueue.faces.stomp.codec import Frame
from pubqueue.faces.stomp.refusals import FOREIGN, REFUSED, refused_word

QUEUE, TOPIC, EITHER = (True,), (False,), (True, False)
ACTIVEMQ = "activemq."

CHANGES = """
    SUBSCRIBE   browser=true                            queue topic
    SUBSCRIBE   activemq.browser=TRUE                   queue topic
    SUBSCRIBE   selector=a>1                            queue topic
    SUBSCRIBE   activemq.selector=a>1                   queue topic
    SUBSCRIBE   durable=true                                  topic
    SUBSCRIBE   persistent=true                               topic
    SUBSCRIBE   activemq.subscriptionName=me                  topic
    SUBSCRIBE   activemq.subcriptionName=me                   topic
    SUBSCRIBE   durable-subscription-name=me                  topic
    SUBSCRIBE   durable-subscriber-name=me                    topic
    SUBSCRIBE   x-queue-name=me                               topic
    SUBSCRIBE   auto-delete=true                        queue
    SUBSCRIBE   exclusive=true                          queue
    SUBSCRIBE   activemq.exclusive=true                 queue
    SUBSCRIBE   x-single-active-consumer=true           queue
    SUBSCRIBE   activemq.priority=5                     queue
    SUBSCRIBE   x-priority=5                            queue
    SUBSCRIBE   activemq.noLocal=true                   queue topic
    SUBSCRIBE   no-local=true                           queue topic
    SUBSCRIBE   activemq.retroactive=true                     topic
    SUBSCRIBE   activemq.maximumPendingMessageLimit=10        topic
    SUBSCRIBE   activemq.maximumRedeliveries=3          queue topic
    SUBSCRIBE   activemq.new=1                          queue topic
    SUBSCRIBE   maximumRedeliveries=3                   queue topic
    SUBSCRIBE   redeliveryDelay=1000                    queue topic
    SUBSCRIBE   x-delivery-limit=3                      queue topic
    SUBSCRIBE   x-dead-letter-exchange=dead             queue topic
    SUBSCRIBE   x-message-ttl=60000                     queue topic
    SUBSCRIBE   x-expires=60000                         queue topic
    SUBSCRIBE   x-max-length=10                         queue topic
    SUBSCRIBE   x-queue-type=stream                     queue topic
    SUBSCRIBE   x-stream-offset=first                   queue topic
    SUBSCRIBE   from-seq=12                                   topic
    UNSUBSCRIBE durable=true                                  topic
    UNSUBSCRIBE durable-subscription-name=me                  topic
    UNSUBSCRIBE activemq.subscriptionName=me                  topic
    SEND        AMQ_SCHEDULED_CRON=*_*_*_*_*            queue topic
    SEND        AMQ_SCHEDULED_PERIOD=1                  queue topic
    SEND        AMQ_SCHEDULED_REPEAT=1                  queue topic
    SEND        AMQ_SCHEDULER_ACTION=REMOVE             queue topic
    SEND        AMQ_SCHEDULED_NEW=1                     queue topic
    SEND        x-message-ttl=60000                     queue topic
    SEND        x-dead-letter-exchange=dead             queue topic
    SEND        x-queue-type=stream                     queue topic
    SEND        _AMQ_LVQ_NAME=a                         queue topic
    SEND        retain=set                                    topic
    SEND        reply-to=/temp-queue/a                  queue topic
    SEND        reply-to=/reply-queue/a                 queue topic
"""
IGNORED = """
    SUBSCRIBE   browser=false
    SUBSCRIBE   selector=
    SUBSCRIBE   durable=false
    SUBSCRIBE   auto-delete=false
    SUBSCRIBE   exclusive=false
    SUBSCRIBE   activemq.priority=0
    SUBSCRIBE   activemq.exclusive=false
    SUBSCRIBE   activemq.dispatchAsync=true
    SUBSCRIBE   activemq.prefetchSize=7
    SUBSCRIBE   activemq.maximumPendingMessageLimit=-1
    SUBSCRIBE   x-queue-type=quorum
    SUBSCRIBE   x-max-priority=10
    SUBSCRIBE   client-id=me
    SUBSCRIBE   transformation=jms-json
    SUBSCRIBE   reply-to=/temp-queue/a
    SUBSCRIBE   mine=true
    SEND        AMQ_SCHEDULED_PERIOD=0
    SEND        AMQ_SCHEDULED_TIME=1
    SEND        AMQ_SCHEDULED_DELAY=1
    SEND        x-queue-type=classic
    SEND        persistent=true
    SEND        browser=true
    SEND        selector=a
    SEND        activemq.any=true
    SEND        reply-to=/queue/answers
    UNSUBSCRIBE durable=false
    UNSUBSCRIBE browser=true
    UNSUBSCRIBE activemq.any=true
"""


def rows(table):
    found = []
    for line in table.strip().splitlines():
        command, word, *kinds = line.split()
        name, _, value = word.partition("=")
        found.append((command, name, value, kinds))
    return found


@pytest.mark.parametrize(("command", "name", "value", "kinds"), rows(CHANGES))
def test_a_word_that_would_change_the_meaning_is_refused_and_named(
    command, name, value, kinds
):  # N15, N29
    headers = {"destination": "jobs", name: value, "receipt": "r"}
    for kind, of in (("queue", QUEUE), ("topic", TOPIC)):
        problem = refused_word(command, headers, of)
        assert (problem is not None) == (kind in kinds)
    problem = refused_word(command, headers, EITHER)
    assert problem.message == "not supported"
    assert name in problem.sentence
    assert len(problem.sentence) > len(name) + 20, "it names the way"


@pytest.mark.parametrize(("command", "name", "value", "kinds"), rows(IGNORED))
def test_a_word_that_cannot_matter_is_not(command, name, value, kinds):  # N29
    assert kinds == []
    assert refused_word(command, {"destination": "jobs", name: value}, EITHER) is None


def test_each_word_has_one_row_for_each_frame():
    each = [
        (command, word)
        for row in FOREIGN
        for command in row.frames.split()
        for word in row.words.split()
    ]
    assert len(each) == len(set(each)) == sum(map(len, REFUSED.values()))


def test_the_documentation_has_all_words_and_no_others():  # N29
    page = (ROOT / "docs/how-to/stomp.md").read_text()
    section = page.partition("\n## Words of other brokers\n")[2].partition("\n## ")[0]
    documented = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            words, frames, way = [cell.strip() for cell in line.strip("|").split(" | ")]
            documented[" ".join(re.findall("`([^`]+)`", words))] = (frames, way)
    assert documented == {row.words: (row.frames.replace(" ", ", "), row.way) for row in FOREIGN}


# --- on a connection -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("destination", "word", "value"),
    [
        ("/queue/jobs", "browser", "true"),
        ("/queue/jobs", "activemq.exclusive", "true"),
        ("/queue/jobs", "maximumRedeliveries", "3"),
        ("/topic/news", "durable", "true"),
        ("/topic/news", "activemq.subscriptionName", "me"),
    ],
)
async def test_a_subscribe_that_asks_for_more_takes_nothing(
    served, destination, word, value
):  # N29
    etl, bee = await served.log_in(), await served.log_in("bee")
    await put(etl, "a")
    bee.say("SUBSCRIBE", destination=destination, id="s", receipt="r", **{word: value})
    error = await ended(bee, "not supported")
    assert error.body.decode().startswith(f"{word}: ")
    item = await stored(served.side, "a")
    assert (item.acquired, item.failed) == (0, 0)


async def test_what_is_so_anyway_is_no_error(served):  # N29
    """RabbitMQ's clients say of a queue that it is durable, and of a topic that nothing is kept."""
    etl, bee = await served.log_in(client_id="me"), await served.log_in("bee")
    queue = {"durable": "true", "auto-delete": "false", "exclusive": "false"}
    topic = {"durable": "false", "auto-delete": "true"}
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="q", **queue)
    await bee.do("SUBSCRIBE", destination="/topic/news", id="t", **topic)
    await bee.do("UNSUBSCRIBE", id="q", **queue)
    await put(etl, "a", destination="/topic/news")
    assert (await bee.hear()).headers["subscription"] == "t"


async def test_an_unsubscribe_cannot_end_what_a_topic_does_not_keep(served):
    bee = await served.works(destination="/topic/news")
    bee.say("UNSUBSCRIBE", id="s", durable="true")
    await ended(bee, "not supported")


@pytest.mark.parametrize("word", ["_AMQ_SCHED_DELIVERY", "AMQ_SCHEDULED_TIME"])
async def test_an_absolute_time_is_the_time_of_the_delivery(served, word):  # N29
    etl, before = await served.log_in(), served.face.now()
    when = before + 3_600_000
    headers = {"destination": "/queue/jobs", "item-id": "a", "receipt": "r", word: f"{when}"}
    etl.say_frame(Frame("SEND", headers, b"later"))
    assert (await etl.answer()).headers == {"receipt-id": "r"}
    due = (await stored(served.side, "a")).due
    assert when <= due <= when + served.face.now() - before
