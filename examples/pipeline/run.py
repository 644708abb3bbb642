"""Runs the pipeline on a temporary Prosody and component, with random orders."""

import asyncio
import json
import os
import random
import secrets
import sys
import tempfile
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import click

from pubqueue_demo.java import java_home
from pubqueue_demo.process import Child, spawn
from pubqueue_demo.prosody import Prosody

HERE = Path(__file__).parent
PAUSE = 0.7
"""Seconds between two files."""

CONFIG = """
jid = "{server.component}"
secret = "{server.secret}"
server = "{server.host}:{server.component_port}"
store = "sqlite:///{folder}/pubqueue.db"
[[node]]
name = "orders"
queueing = true
publishers = ["etl@{server.domain}"]
members = {members}
[node.options]
"x-queueing#event_log" = true
"""


async def run(orders: int, files: int, workers: int, picture: Path) -> int:
    """Start everything, write orders, and return the exit code of the Spark job."""
    password = secrets.token_hex(16)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pipeline-")))
        server = await stack.enter_async_context(Prosody())
        for name in ("etl", *(f"bot{number}" for number in range(workers))):
            await server.account(name, password)
        (folder / "orders").mkdir()
        config = folder / "pubqueue.toml"
        config.touch(mode=0o600)
        members = json.dumps([f"bot{number}@{server.domain}" for number in range(workers)])
        config.write_text(CONFIG.format(server=server, folder=folder, members=members))
        component = await spawn(
            [sys.executable, "-Im", "pubqueue", "serve", "--config", config],
            name="the component",
            log=folder / "component.log",
        )
        stack.push_async_callback(component.stop)
        await component.wait_line("ready", timeout=30)
        print("Prosody and the component are ready; starting Spark and the workers", flush=True)
        for number in range(workers):
            worker = await start_worker(server, f"bot{number}", password, folder)
            stack.push_async_callback(worker.stop)
        streams = await start_streams(server, password, folder, orders, picture)
        stack.push_async_callback(streams.stop, 2)
        await streams.wait_line("ready", timeout=120)
        print("orders are coming", flush=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed(folder / "orders", orders, files))
            async for line in streams.lines():
                print(line, flush=True)
        code = await streams.wait()
        if code:
            print(streams.log.read_text()[-3000:], file=sys.stderr)
        return code


async def start_worker(server: Prosody, name: str, password: str, folder: Path) -> Child:
    """Start a worker; its environment has the address of the server."""
    at = f"?host={server.host}&port={server.c2s_port}&tls=off"
    url = f"xmpp://{name}@{server.domain}/{server.component}{at}"
    return await spawn(
        [sys.executable, HERE / "worker.py", "orders"],
        name=name,
        log=folder / f"{name}.log",
        env=os.environ | {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD": password},
    )


async def start_streams(
    server: Prosody, password: str, folder: Path, orders: int, picture: Path
) -> Child:
    """Start the Spark job."""
    connection = {
        "service": server.component,
        "node": "orders",
        "jid": f"etl@{server.domain}",
        "host": server.host,
        "port": server.c2s_port,
        "tls": "off",
    }
    java = await asyncio.to_thread(java_home, folder)
    settings = {"JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)}
    return await spawn(
        [
            *(sys.executable, HERE / "streams.py", folder / "orders", picture, str(orders)),
            *(f"{name}={value}" for name, value in connection.items()),
        ],
        name="the Spark job",
        log=folder / "spark.log",
        env=os.environ
        | settings
        | {"PIPELINE_PASSWORD": password, "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
    )


async def feed(folder: Path, orders: int, files: int) -> None:
    """Write orders, file by file; one in the middle is as large as all others together."""
    cuts = [orders * at // (2 * files) for at in range(files)]
    middle = files // 2
    sizes = [end - begin for begin, end in pairwise(cuts)]
    sizes.insert(middle, orders - sum(sizes))
    number = 0
    for size in sizes:
        lines = [json.dumps(order(number + at)) for at in range(size)]
        number += size
        hidden = folder / f".{number}.json"  # Spark ignores it until it is complete
        hidden.write_text("\n".join(lines))
        hidden.rename(folder / f"{number}.json")
        await asyncio.sleep(PAUSE)


def order(number: int) -> dict[str, object]:
    """Make a random order."""
    total = round(random.uniform(5, 500), 2)  # noqa: S311  not a secret
    return {"order": f"A-{number}", "customer": f"customer {number % 97}", "total": total}


@click.command()
@click.option("--orders", default=4000, type=click.IntRange(min=1), show_default=True)
@click.option("--files", default=20, type=click.IntRange(min=2), show_default=True)
@click.option("--workers", default=2, type=click.IntRange(1, 20), show_default=True)
@click.option(
    "--picture", default="pipeline.png", show_default=True, type=click.Path(path_type=Path)
)
def main(orders: int, files: int, workers: int, picture: Path) -> None:
    """Write orders to files, do the work, and stream the event log into a table and a picture."""
    sys.exit(asyncio.run(run(orders, files, workers, picture.absolute())))


if __name__ == "__main__":
    main()
