"""What MkDocs is told of the pages: their order, those that are kept beside the code, and where links lead.

The menu is by task and protocol. A page of `docs/` has a place as soon as it is there: one that the menu does not name stands at the
end of the section of its folder. Decisions are reached by their index.
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

Group = tuple[str, tuple[str, ...]]

MENU: Final[dict[str, tuple[Group, ...]]] = {
    "Start": (
        (
            "",
            (
                "tutorial/first-worker.md",
                "tutorial/demo.md",
                "how-to/install.md",
                "how-to/without-xmpp.md",
                "how-to/attach.md",
                "how-to/queue.md",
                "reference/glossary.md",
            ),
        ),
    ),
    "How-to": (
        (
            "Python",
            (
                "how-to/publish.md",
                "how-to/outbox.md",
                "how-to/worker.md",
                "how-to/handlers.md",
                "how-to/payloads.md",
                "how-to/blocking.md",
                "how-to/run-a-worker.md",
                "how-to/ask-and-reply.md",
                "how-to/hold.md",
                "how-to/then.md",
                "how-to/join.md",
                "how-to/ask-people.md",
                "how-to/test-your-handlers.md",
                "how-to/tracing.md",
                "how-to/qos.md",
                "how-to/several-services.md",
            ),
        ),
        ("STOMP", ("how-to/stomp.md", "how-to/curb.md")),
        ("HTTP", ("how-to/rest.md", "how-to/rest-push.md")),
        ("Pub/Sub", ("how-to/grpc.md", "how-to/emulator.md")),
        ("Spark", ("how-to/spark.md", "project/spark.md", "how-to/transactions.md")),
        (
            "XMPP",
            (
                "how-to/reading.md",
                "how-to/plain-nodes.md",
                "how-to/several-subscriptions.md",
                "how-to/federation.md",
            ),
        ),
        (
            "Shape the work",
            ("how-to/schedules.md", "how-to/groups-and-rates.md", "how-to/feed-queues.md"),
        ),
    ),
    "Operations": (
        (
            "Set up",
            (
                "operations/checklist.md",
                "operations/install-as-a-service.md",
                "operations/container.md",
                "operations/users.md",
                "operations/proxies.md",
                "operations/postgresql.md",
                "operations/instances.md",
                "operations/sizing-and-tuning.md",
            ),
        ),
        (
            "Run",
            (
                "operations/serving.md",
                "operations/command-line.md",
                "operations/page.md",
                "operations/http-api.md",
                "operations/chat-client.md",
                "operations/monitoring.md",
                "operations/alerts.md",
                "operations/rehearsal.md",
            ),
        ),
        (
            "Keep",
            (
                "operations/backup-and-restore.md",
                "operations/upgrade.md",
                "operations/migrate.md",
                "operations/definitions.md",
                "operations/limits.md",
            ),
        ),
        ("Help", ("operations/troubleshooting.md",)),
    ),
    "Reference": (
        (
            "Service",
            (
                "reference/configuration.md",
                "reference/nodes.md",
                "reference/command-line.md",
                "reference/commands.md",
                "reference/errors.md",
            ),
        ),
        (
            "Protocols",
            (
                "reference/protocol.md",
                "reference/stomp.md",
                "reference/rest.md",
                "reference/grpc.md",
                "project/schemas.md",
            ),
        ),
        ("Python", ("reference/api.md",)),
    ),
    "Explanation": (
        (
            "",
            (
                "explanation/architecture.md",
                "explanation/guarantees.md",
                "explanation/proof.md",
                "explanation/coming-from.md",
                "explanation/other-services.md",
                "explanation/limits.md",
                "explanation/measuring.md",
            ),
        ),
    ),
    "Project": (
        (
            "Conformance",
            (
                "project/conformance.md",
                "project/conformance-stomp.md",
                "project/conformance-rest.md",
                "project/conformance-grpc.md",
            ),
        ),
        (
            "",
            (
                "project/architecture.md",
                "decisions/index.md",
                "project/contributing.md",
                "project/changelog.md",
            ),
        ),
    ),
}
"""The menu: of each section its groups, of each group its pages. A page that is not named here stands at the end of the section of its folder."""

FOLDERS: Final = {
    "tutorial": "Start",
    "how-to": "How-to",
    "operations": "Operations",
    "reference": "Reference",
    "explanation": "Explanation",
}
"""The section of each folder. The decisions are not in the menu: their index links to them."""

# fmt: off
BESIDE_THE_CODE: Final = {
    "component/README.md":    "project/architecture.md",
    "xeps/README.md":         "project/conformance.md",
    "xeps/schemas/README.md": "project/schemas.md",
    "xeps/stomp.md":          "project/conformance-stomp.md",
    "xeps/rest.md":           "project/conformance-rest.md",
    "xeps/grpc.md":           "project/conformance-grpc.md",
    "README.md":              "project/readme.md",
    "spark/README.md":        "project/spark.md",
    "CONTRIBUTING.md":        "project/contributing.md",
    "CHANGELOG.md":           "project/changelog.md",
}
# fmt: on

LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def menu() -> list[Any]:
    """Return the menu, with the pages that are there."""
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    there |= set(BESIDE_THE_CODE.values())
    named = {page for groups in MENU.values() for _, pages in groups for page in pages}
    found: list[Any] = [{"pubqueue": "index.md"}]
    for section, groups in MENU.items():
        entries: list[Any] = []
        for title, pages in groups:
            shown = [page for page in pages if page in there]
            entries += [{title: shown}] if title and shown else shown
        folders = {folder for folder, of in FOLDERS.items() if of == section}
        entries += sorted(page for page in there - named if page.partition("/")[0] in folders)
        found.append({section: entries})
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages into their order."""
    config.nav = menu()
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
