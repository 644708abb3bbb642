"""What the commands of `pip install pubqueue`, without any extra, are tried with."""

from typing import Final

_ITEM: Final = '{"greeting": "hello"}'
_SCHEDULE: Final = ("--cron", "0 3 * * *", "--node", "jobs", "--payload", _ITEM)

DONE: Final = {
    "schedule": (("schedule", "add", "nightly", *_SCHEDULE), ("schedule", "fire", "nightly")),
    "publish": (("publish", "mail", "{}"),),
    "queues": (("queues",),),
    "overview": (("overview",),),
    "top": (("top", "--once"),),
    "service": (("service",),),
    "items": (("items", "jobs"),),
    "peek": (),  # with an item that is there
    "item": (),  # likewise
    "alerts": (("alerts",),),
    "events": (("events", "jobs"),),
    "workers": (("workers", "jobs"),),
    "dead": (("dead", "jobs"),),
    "doctor": (("doctor",),),
    "pause": (("pause", "jobs"),),
    "resume": (("resume", "jobs"),),
    "pause-publishing": (("pause-publishing", "jobs"),),
    "resume-publishing": (("resume-publishing", "jobs"),),
    "redrive": (("redrive", "jobs", "--yes"),),
    "cancel": (),  # there is no such item
    "discard": (("discard", "jobs", "--yes"),),
    "release": (),  # nobody holds the item
    "signal": (),  # with an item that is there
    "signal-link": (),  # likewise
    "close-join": (),  # with one that is a join
    "end-subscription": (),  # nobody subscribes
    "quiet-worker": (),  # likewise
    "resume-worker": (),  # likewise
    "connections": (("connections",),),
    "messages": (("messages", "list"), ("messages", "drop", "--yes", "etl@jobs.localhost")),
    "registration": (("registration", "list", "--node", "jobs"),),
    "end-connection": (("end-connection", "--yes", "nobody@jobs.localhost/stomp.1.1"),),
    "node": (
        ("node", "create", "letters", "max_failures=3"),
        ("node", "settings", "letters"),
        ("node", "members", "letters"),
        ("node", "delete", "letters", "--yes"),
    ),
    "purge": (("purge", "jobs", "--yes"),),
    "outbox": (("outbox", "sql", "--dialect", "sqlite"),),
    "completion": (("completion", "bash"),),
}
"""Of each command that needs no extra, what it is run with, in this order."""

ELSEWHERE: Final = {"people", "worker"}
"""What is tried by other tests: tests/e2e/test_people_killed.py and tests/cli/test_worker.py."""
