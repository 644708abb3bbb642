"""What MkDocs is told of the pages: their order, those that are kept beside the code, and where links lead.

A page of `docs/` has a place as soon as it is there: the pages named here come first, the others after them by name.
READMEs of folders are pages of the site, read from where they are. A link to any other file of the repository leads to
it on the site of the repository.
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
    "how-to":      ("How-to",      ["attach.md", "queue.md", "worker.md", "publish.md", "transactions.md", "reading.md",
                                    "plain-nodes.md", "spark.md"]),
    "operations":  ("Operations",  ["serving.md", "page.md", "chat-client.md", "instances.md", "postgresql.md", "migrate.md"]),
    "reference":   ("Reference",   ["configuration.md", "command-line.md", "api.md", "nodes.md", "protocol.md",
                                    "commands.md", "errors.md"]),
    "explanation": ("Explanation", ["guarantees.md", "coming-from.md", "other-services.md", "limits.md",
                                    "measuring.md"]),
    "project":     ("Project",     ["architecture.md", "conformance.md", "schemas.md", "spark.md", "contributing.md",
                                    "changelog.md"]),
}
"""Of each folder its title, and the pages that come first."""

BESIDE_THE_CODE: Final = {
    "component/README.md":    "project/architecture.md",
    "xeps/README.md":         "project/conformance.md",
    "xeps/schemas/README.md": "project/schemas.md",
    "spark/README.md":        "project/spark.md",
    "CONTRIBUTING.md":        "project/contributing.md",
    "CHANGELOG.md":           "project/changelog.md",
}
# fmt: on

LINK: Final = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")


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

    def target(found: re.Match[str]) -> str:
        link, anchor = found[1], found[2] or ""
        if re.match(r"[a-z]+:", link):
            return found[0]
        path = Path(os.path.normpath(here / link))
        if not path.exists():
            return found[0]  # which MkDocs complains of
        return shown_at(path, file.src_uri, config) + anchor

    return LINK.sub(target, markdown)


def shown_at(path: Path, page: str, config: MkDocsConfig) -> str:
    """Return the link from a page to a file of the repository."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in BESIDE_THE_CODE or inside.startswith("docs/"):
        shown = BESIDE_THE_CODE.get(inside, inside.removeprefix("docs/"))
        return os.path.relpath(shown, Path(page).parent.as_posix())
    kind = "tree" if path.is_dir() else "blob"
    return f"{config.extra['repository']}/{kind}/main/{inside}"
