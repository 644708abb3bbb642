"""Publish each line of the standard input as a work item: its first word is the item's id.

PUBQUEUE_URL=xmpp://etl@example.org/queue.example.org PUBQUEUE_PASSWORD=... python examples/publisher.py jobs
"""

import sys

from pubqueue import BlockingPublisher

with BlockingPublisher() as publisher:
    for line in sys.stdin:
        name, _, text = line.strip().partition(" ")
        publisher.publish(sys.argv[1], {"text": text}, id=name)
        print(f"{name} is in the queue")  # and stays there until a worker has retracted it
