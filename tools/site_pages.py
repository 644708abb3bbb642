"""What MkDocs is told of the pages: their order, those that are kept beside the code, and where links lead.

A page of `docs/` has a place as soon as it is there: the pages named here come first, the others after them by name.
READMEs of folders are pages of the site, read from where they are. A link to any other file of the repository is a path
to read there: the site does not know where the repository is shown.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]

# fmt: off
SECTIONS: Final[dict[str, tuple[str, list[str]]]] = {
    "tutorial":    ("Tutorial",    ["first-worker.md", "demo.md"]),
    "how-to":      ("How-to",      ["install.md", "attach.md", "queue.md", "publish.md", "payloads.md", "worker.md",
                                    "blocking.md", "handlers.md", "run-a-worker.md", "ask-and-reply.md",
                                    "groups-and-rates.md", "feed-queues.md", "schedules.md", "transactions.md", "test-your-handlers.md",
                                    "tracing.md", "reading.md", "plain-nodes.md", "several-subscriptions.md",
                                    "federation.md",
                                    "without-xmpp.md", "stomp.md", "rest.md", "rest-push.md", "grpc.md", "emulator.md", "spark.md", "curb.md"]),
    "operations":  ("Operations",  ["install-as-a-service.md", "serving.md", "users.md", "command-line.md", "page.md", "http-api.md", "proxies.md", "chat-client.md",
                                    "monitoring.md", "alerts.md", "limits.md", "rehearsal.md", "backup-and-restore.md", "upgrade.md",
                                    "sizing-and-tuning.md", "instances.md", "postgresql.md", "migrate.md"]),
    "reference":   ("Reference",   ["configuration.md", "command-line.md", "api.md", "nodes.md", "protocol.md",
                                    "commands.md", "errors.md"]),
    "explanation": ("Explanation", ["guarantees.md", "coming-from.md", "other-services.md", "limits.md",
                                    "measuring.md"]),
    "decisions":   ("Decisions",   ["index.md"]),
    "project":     ("Project",     ["architecture.md", "conformance.md", "schemas.md", "spark.md", "contributing.md",
                                    "changelog.md"]),
}
"""Of each folder its title, and the pages that come first."""

BESIDE_THE_CODE: Final = {
    "component/README.md":    "project/architecture.md",
    "xeps/README.md":         "project/conformance.md",
    "xeps/schemas/README.md": "project/schemas.md",
    "README.md":              "project/readme.md",
    "spark/README.md":        "project/spark.md",
    "CONTRIBUTING.md":        "project/contributing.md",
    "CHANGELOG.md":           "project/changelog.md",
}
# fmt: on

LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages into their order."""
    nav: list[Any] = [{"pubqueue": "index.md"}]
    for folder, (title, first) in SECTIONS.items():
        there = {path.name for path in (ROOT / "docs" / folder).glob("*.md")}
        there |= {Path(page).name for page in BESIDE_THE_CODE.values() if page.startswith(folder)}
        pages = [name for name in first if name in there] + sorted(there - {*first})
        nav.append({title: [f"{folder}/{name}" for name in pages]})
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept beside the code."""
    for path, page in BESIDE_THE_CODE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # MkDocs names them
    """Have each link lead to where the file is shown."""
    file = page.file
    origin = {of: path for path, of in BESIDE_THE_CODE.items()}.get(file.src_uri)
    here = (ROOT / origin).parent if origin else (ROOT / "docs" / file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        text, link, anchor = found[1], found[2], found[3] or ""
        path = Path(os.path.normpath(here / link))
        if re.match(r"[a-z]+:", link) or not path.exists():
            return found[0]  # of what is not there MkDocs complains
        inside = path.relative_to(ROOT).as_posix()
        if inside not in BESIDE_THE_CODE and not inside.startswith("docs/"):
            return text if inside in text else f"{text} (`{inside}`)"
        target = BESIDE_THE_CODE.get(inside, inside.removeprefix("docs/"))
        return f"[{text}]({os.path.relpath(target, Path(file.src_uri).parent)}{anchor})"

    return LINK.sub(shown, markdown)
