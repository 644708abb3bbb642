"""A saga of ten steps, undone if one fails: python examples/saga.py orders steps, with the queues `undo` and `mails`."""

import asyncio
import sys
from datetime import timedelta

from pubqueue import FollowUp, Handlers, Hold, Item, Publisher, Then, Worker

STEPS = ("reserve", "check", "pay", "bill", "pick", "pack", "label", "ship", "deliver", "thank")

app = Handlers()


@app.handler(node="orders")
async def order(item: Item) -> Then:
    done: int = item.carried or 0
    match item.woken:
        case "signal" if item.signals[-1].name == "done":
            done += 1
        case "signal" | "time":  # a step has failed, or was not done in two days
            undo = [FollowUp("undo", {"order": item.id, "step": one}) for one in STEPS[:done]]
            return Then(*reversed(undo))
    print(f"{item.id}: {done} of {len(STEPS)} are done", flush=True)
    if done == len(STEPS):
        return Then(FollowUp("mails", {"order": item.id}))
    step = FollowUp("steps", {"order": item.id, "step": STEPS[done]})
    return Then(step, hold=Hold(("done", "failed"), within=timedelta(days=2), carry=done))


@app.handler(node="steps")
async def do_step(item: Item) -> None:
    step = item.decode(dict[str, str])
    async with Publisher() as publisher:
        # it counts once under its id, however often this step is done
        await publisher.signal("orders", step["order"], "done", signal_id=step["step"])


asyncio.run(Worker(node=sys.argv[1:], requests=10).run(app))
