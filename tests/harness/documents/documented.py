"""The parts of the documentation that readers use: its code blocks, and servers that are set up by them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml
from harness.servers.ejabberd import Ejabberd

from pubqueue_demo.prosody import COMPONENT, Prosody

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
BUILD: Final = ROOT / "build"
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOMAIN: Final = "example.org"
SECRET: Final = "a long secret"
DOCUMENTED_AT: Final = "127.0.0.1:9254"
"""The documented address of the service's metrics."""


FOLLOWED: Final = ("README.md", "docs/tutorial/first-worker.md")
"""Pages that are followed line by line, with the expected input, files and output (`tools/five-minutes`)."""


ELSEWHERE: Final = {
    "docs/explanation/coming-from.md": "testing/test_first_examples.py",
    "docs/how-to/ask-and-reply.md": "e2e/test_how_to.py",
    "docs/how-to/ask-people.md": "e2e/test_people.py",
    "docs/how-to/blocking.md": "e2e/test_how_to.py",
    "docs/how-to/curb.md": "curb/test_clients.py",
    "docs/how-to/federation.md": "e2e/test_federation.py",
    "docs/how-to/payloads.md": "e2e/test_how_to.py",
    "docs/how-to/publish.md": "e2e/test_how_to.py",
    "docs/how-to/handlers.md": "e2e/test_documented_workers.py",
    "docs/how-to/run-a-worker.md": "e2e/test_documented_workers.py",
    "docs/how-to/tracing.md": "e2e/test_documented_workers.py",
    "docs/how-to/groups-and-rates.md": "xeps/test_groups_e2e.py",
    "docs/how-to/hold.md": "testing/test_hold.py",
    "docs/how-to/then.md": "testing/test_then.py",
    "docs/how-to/join.md": "testing/test_join.py",
    "docs/how-to/install.md": "proof/packaging/test_installed.py",
    "docs/how-to/schedules.md": "config/test_nodes.py",
    "docs/how-to/emulator.md": "faces/grpc/test_emulator.py",
    "docs/how-to/grpc.md": "faces/grpc/test_how_to.py",
    "docs/how-to/outbox.md": "xeps/outbox/test_how_to.py",
    "docs/how-to/qos.md": "xeps/xep_qos/test_how_to.py",
    "docs/how-to/rest.md": "faces/rest/test_how_to.py",
    "docs/how-to/rest-push.md": "faces/rest/push/test_how_to.py",
    "docs/how-to/stomp.md": "faces/stomp/served/test_programs.py",
    "docs/how-to/without-xmpp.md": "faces/rest/test_without_xmpp.py",
    "docs/how-to/several-services.md": "testing/test_services.py",
    "docs/how-to/several-subscriptions.md": "e2e/test_clients_subids.py",
    "docs/how-to/test-your-handlers.md": "testing/test_documented.py",
    "docs/operations/alerts.md": "monitor/test_alerts.py",
    "docs/operations/command-line.md": "e2e/test_operations.py",
    "docs/operations/container.md": "proof/packaging/test_container.py",
    "docs/operations/definitions.md": "admin/test_definitions.py",
    "docs/operations/http-api.md": "monitor/api/test_documented.py",
    "docs/operations/monitoring.md": "proof/demo/test_rehearsal.py",
    "docs/operations/proxies.md": "monitor/test_proxies.py",
    "docs/operations/rehearsal.md": "proof/demo/test_rehearsal.py",
}
"""Pages whose snippets are run by a test of their own, which knows the expected results."""


class Block(NamedTuple):
    """A code block: the page, its number among the blocks in that language, and its text."""

    page: str
    number: int
    text: str
    language: str

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.page}-{self.number}"


@cache
def every_block() -> tuple[Block, ...]:
    """Return each block of every page, counted within its page and language."""
    return tuple(found for page in sorted(pages()) for found in blocks_of(page))


def pages() -> Iterator[Path]:
    """Yield the pages of the project; hidden folders, `build` and `node_modules` have copies of them, and foreign pages."""
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if name[0] != "." and name != "node_modules"]
        inside[:] = [name for name in inside if Path(folder, name) != BUILD]
        yield from (Path(folder, name) for name in names if name.endswith(".md"))


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield each block of a page."""
    counts: Counter[str] = Counter()
    for language, text in BLOCK.findall(page.read_text()):
        counts[language] += 1
        yield Block(page.relative_to(ROOT).as_posix(), counts[language], text, language)


def blocks(language: str) -> Iterator[Block]:
    """Yield each block in this language of every page."""
    return (block for block in every_block() if block.language == language)


class DocumentedProsody(Prosody):
    """Prosody for example.org with the limits of Debian, and a documented block in a file that it includes."""

    def __init__(self, block: Block) -> None:
        name = f"queue.{DOMAIN}"
        super().__init__(component=name, more_domains=(DOMAIN,), modules=("limits",))
        self._block = block
        self._own = "Component" in block.text
        if self._own:
            self.secret = SECRET

    def _config(self) -> str:
        included = self.folder / "conf.d" / "pubqueue.cfg.lua"
        included.parent.mkdir(exist_ok=True)
        included.write_text(self._block.text)
        ours = COMPONENT.format(component=self.component, secret=self.secret)
        config = super()._config().replace("network_settings = { nagle = false }\n", "")
        config = config.replace(ours, "") if self._own else config
        return f's2s_require_encryption = false\n{config}\nInclude "conf.d/*.cfg.lua"\n'


class DocumentedEjabberd(Ejabberd):
    """ejabberd for example.org with the shapers of Debian, and a documented block in a file that it includes."""

    def __init__(self, block: Block) -> None:
        more = () if f"hosts:\n  - {DOMAIN}\n" in block.text else (DOMAIN,)
        super().__init__(component=f"queue.{DOMAIN}", more_domains=more)
        self._block = block
        self._own = "ejabberd_service" in block.text
        if self._own:
            self.secret = SECRET

    def _configure(self) -> None:
        super()._configure()
        path = self.folder / "ejabberd.yml"
        included = self.folder / "pubqueue.yml"
        both = self.folder / "both.pem"
        if CERTIFICATE in self._block.text:
            made = [*SELF_SIGNED, "-keyout", both, "-out", both]
            subprocess.run(made, check=True, capture_output=True)
        text = self._block.text.replace("5347", str(self.component_port))
        included.write_text(text.replace(CERTIFICATE, str(both)))
        config = json.loads(path.read_text())
        clients, component = config["listen"]
        clients["shaper"] = "c2s_shaper"
        config["listen"] = [clients] if self._own else [clients, component]
        config |= {
            "acl": {"admin": {"user": f"admin@{DOMAIN}"}},
            "shaper": {"normal": {"rate": 3000, "burst_size": 20_000}},
            "include_config_file": [str(included)],
        }
        path.write_text(json.dumps(config))


CERTIFICATE: Final = f"/etc/ejabberd/{DOMAIN}.pem"
SELF_SIGNED: Final = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN={DOMAIN}".split()


DEBIANS: Final = Path("/etc/ejabberd/ejabberd.yml")


class DebiansEjabberd(DocumentedEjabberd):
    """ejabberd with the file that Debian's package installs, changed by the commands of the pages and including the block.

    Hosts, ports, modules and the storage of accounts are the test's, because it is not root and Debian's ports are one
    machine's.
    """

    def _configure(self) -> None:
        super()._configure()
        path, copied = self.folder / "ejabberd.yml", self.folder / "debians.yml"
        copied.write_text(DEBIANS.read_text())
        commands = [block.text for block in blocks("sh") if str(DEBIANS) in block.text]
        assert len(commands) == 2, "how it is attached, and what Spark needs beside"
        here = "".join(commands).replace(str(DEBIANS), str(copied))
        here = here.replace("/etc/ejabberd/pubqueue.yml", str(self.folder / "pubqueue.yml"))
        subprocess.run(["sh", "-e"], input=here, text=True, check=True)
        theirs = yaml.safe_load(copied.read_text())
        ours = json.loads(path.read_text())
        kept = ("acl", "access_rules", "shaper", "shaper_rules", "include_config_file")
        path.write_text(json.dumps(ours | {name: theirs[name] for name in kept}))
