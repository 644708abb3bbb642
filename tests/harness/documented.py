"""What the documentation prints for others to use: its code blocks, and servers that are set up by them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.ejabberd import Ejabberd

from pubqueue_demo.prosody import COMPONENT, Prosody

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOMAIN: Final = "example.org"
SECRET: Final = "a long secret"


class Block(NamedTuple):
    """A code block: the page, which of the blocks in that language it is, and its text."""

    page: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """What a test about it is called."""
        return f"{self.page}-{self.number}"


def blocks(language: str) -> Iterator[Block]:
    """Yield each block in this language of every page."""
    for path in sorted(ROOT.rglob("*.md")):
        page = str(path.relative_to(ROOT))
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts):
            found = [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]
            yield from (Block(page, number, text) for number, text in enumerate(found, 1))


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
        super().__init__(component=f"queue.{DOMAIN}", more_domains=(DOMAIN,))
        self._block = block
        self._own = "ejabberd_service" in block.text
        if self._own:
            self.secret = SECRET

    def _configure(self) -> None:
        super()._configure()
        path = self.folder / "ejabberd.yml"
        included = self.folder / "pubqueue.yml"
        included.write_text(self._block.text.replace("5347", str(self.component_port)))
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
