"""The documentation holds together: every block has a verdict, links lead somewhere, and all pages can be built."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from html.parser import HTMLParser

import click
import pytest
from harness.documents.documented import (
    BLOCK,
    ELSEWHERE,
    FOLLOWED,
    ROOT,
    blocks,
    every_block,
    pages,
)
from harness.stanzas.schema import ACCEPT, validate
from lxml import etree

import pubqueue
from pubqueue.cli import main
from pubqueue.faces.table import FACES

RUN = {
    "lua": "tests/e2e/test_documented.py: Prosody checks it, and is run with it",
    "yaml": "tests/e2e/test_documented.py: ejabberd is run with it",
    "toml": "tests/e2e/test_documented.py: the service reads it",
    "python": "tests/e2e/test_documented.py, or of Spark tests/spark/test_documented.py: run",
    "javascript": "tests/faces/stomp/served/test_programs.py, tests/faces/grpc/test_how_to.py: run by Node",
    "html": "tests/faces/stomp/test_web_socket.py: opened in Chromium",
    "ruby": "tests/faces/stomp/served/test_programs.py: run",
    "perl": "tests/faces/stomp/served/test_programs.py: run",
    "xml": "below: valid by the schemas",
    "sh": "below: each command, by the program that it is for",
    "console": "below: as sh, the lines behind $",
    "text": "what a program shows, where a page is followed; else see NOT_RUN",
}
"""Who judges the blocks of a language."""

NOT_RUN = {
    ("component/README.md", "", 1): "a drawing",
    (
        "docs/operations/definitions.md",
        "",
        1,
    ): "a plan, whose lines tests/e2e/test_both_carriers.py compares",
    (
        "docs/tutorial/demo.md",
        "text",
        1,
    ): "the last lines of one run: figures differ from run to run",
    (
        "docs/operations/chat-client.md",
        "text",
        1,
    ): "typed into profanity by tests/e2e/test_clients.py",
    (
        "tests/scenarios/README.md",
        "",
        1,
    ): "the language of scenarios, which tests/harness/scenarios/scenario.py reads",
    ("tests/scenarios/README.md", "", 2): "the same",
    (
        "docs/operations/page.md",
        "nginx",
        1,
    ): "tests/monitor/page/test_site.py sends what it has a proxy send",
    (
        "docs/operations/users.md",
        "text",
        1,
    ): "tests/accounts/test_accounts.py reads what is in such a line",
    ("docs/operations/page.md", "text", 1): "tests/monitor/page/test_site.py reads such a line",
}

NOT_OURS = {
    "systemctl": "proof/packaging/test_pages.py has something stand in for it",
    "psql": "tests/harness/databases/postgres.py makes the role and the schema with the same words",
    "export": "the shell's own",
    "eval": "the shell's own",
    "cd": "the shell's own",
    "dpkg": "tests/packaging installs the package",
    "install": "of the distribution",
    "editor": "of the distribution",
    "(umask": "the shell's own",
    "podman": "a test has no registry of images; proof/packaging/test_container.py starts what it starts",
    "podman-compose": "a test has no registry of images; proof/packaging/test_container.py checks the files",
    "python3": "of the distribution",
    "adduser": "of the distribution",
    "cp": "of the distribution",
    "cat": "of the distribution",
    "mkdir": "of the distribution",
    "sh": "of the distribution",
    "curl": "of the distribution",
    "promtool": "of Prometheus; proof/demo/test_rehearsal.py",
    "openssl": "of OpenSSL",
    "chmod": "of the distribution",
    "sed": "of the distribution; tests/harness/documents/documented.py runs what the page says on Debian's file",
    "echo": "the shell's own",
    "prosodyctl": "of Prosody; proof/packaging/test_pages.py runs it",
    "ejabberdctl": "of ejabberd; proof/packaging/test_pages.py runs it",
    "chown": "of the distribution",
    "python": "a program of the page, which proof/demo/test_rehearsal.py runs",
}
"""Programs of a page that are not run here, and why."""


def test_every_block_has_a_verdict():
    open_ones = [
        f"{block.name} ({block.language or 'no language'})"
        for block in every_block()
        if (block.page, block.language, block.number) not in NOT_RUN
        and block.page not in FOLLOWED
        and block.page not in ELSEWHERE
        and (block.language not in RUN or block.language == "text")
    ]
    assert open_ones == []


def test_what_is_not_run_is_there():
    assert NOT_RUN.keys() <= {(one.page, one.language, one.number) for one in every_block()}


def test_each_page_that_is_run_is_named_by_its_test():
    for page, test in ELSEWHERE.items():
        if (ROOT / page).exists():
            name = page.rpartition("/")[2].removesuffix(".md")
            place = ROOT if test.startswith("proof/") else ROOT / "tests"
            assert name in (place / test).read_text()


# --- xml ----------------------------------------------------------------------------------------


def stanzas(text):
    """Return what stands in a block, each a stanza; what is none is the child of an IQ."""
    for one in etree.fromstring(f"<all xmlns='{ACCEPT}'>{text}</all>"):
        if one.tag == f"{{{ACCEPT}}}iq":
            yield one
        else:
            iq = etree.Element(f"{{{ACCEPT}}}iq", id="1", type="get" if len(one) == 0 else "result")
            iq.append(one)
            yield iq


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in blocks("xml")])
def test_stanzas_are_valid(block):
    for stanza in stanzas(block.text):
        sender = ("from", "to") if stanza.get("type") in {"get", "set"} else ("to", "from")
        for name, address in zip(sender, ("bot@example.org/1", "queue.example.org"), strict=True):
            stanza.set(name, address)
        validate(stanza)


# --- sh -----------------------------------------------------------------------------------------


def commands(block):
    """Return the commands of a block, each as its words, without what goes before the program."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words = shlex.split(line, comments=True)
        while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] == "sudo"):
            words = words[1:]
            while words and words[0].startswith("-"):  # of sudo
                words = words[2 if words[0] == "-u" else 1 :]
        if words:
            yield words


def try_pubqueue(words):
    """Parse a command line of ours as the program does, and do nothing of it."""
    if words[1] in {"--help", "--version"}:
        return
    context = click.Context(main)
    name, command, rest = main.resolve_command(context, words[1:])
    assert command is not None
    command.make_context(name, list(rest), parent=context)


def try_pip(words):
    """Each extra that is asked for is there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert words[1] == "install"
    for asked in re.findall(r"\[(.*?)\]", " ".join(words)):
        assert set(asked.split(",")) <= set(extras)


def try_make(words):
    """Each target and each variable is in the Makefile."""
    reported = (ROOT / "Makefile").read_text()
    for word in words[1:]:
        name, is_variable, _ = word.partition("=")
        assert re.search(
            rf"^{name} \?=" if is_variable else rf"^{name}:", reported, re.MULTILINE
        ), word


TRIED = {"pubqueue": try_pubqueue, "pip": try_pip, "make": try_make}


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{block.name}-{block.language}")
        for language in ("sh", "console")
        for block in blocks(language)
        if block.page not in FOLLOWED
    ],
)
def test_commands_are_what_they_say(block):
    if block.language == "sh":
        subprocess.run(["sh", "-n"], input=block.text, text=True, check=True)
    for words in commands(block):
        program = words[0].rpartition("/")[2]
        if program in TRIED:
            TRIED[program](words)
        else:
            assert program in NOT_OURS, f"{program} is neither tried nor explained"


def test_a_flag_that_is_not_there_is_found():
    with pytest.raises(click.UsageError):
        try_pubqueue(["pubqueue", "serve", "--no-such-flag"])


SPAN = re.compile(r"(?<!`)`pubqueue ([a-z][^`]*)`(?!`)")
TYPED = re.compile(r"^(\$ )?(sudo )?(-u \S+ )?pubqueue [a-z]", re.MULTILINE)


def try_span(words):
    """Find the command that a sentence names, and each of its options; what the sentence leaves out is nothing to it."""
    command, context = main, click.Context(main)
    while words and isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, info_name=name, parent=context)
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}


def spans():
    """Yield each command of ours that stands in a sentence, with its page; the changelog is a record."""
    for page in sorted(pages()):
        where = page.relative_to(ROOT).as_posix()
        if where != "CHANGELOG.md":
            for found in SPAN.findall(BLOCK.sub("", page.read_text())):
                yield where, " ".join(found.split())


def test_commands_in_sentences_are_there():
    wrong, count = [], 0
    for page, text in spans():
        count += 1
        try:
            try_span(shlex.split(text))
        except (click.UsageError, AssertionError) as error:
            wrong.append((page, text, str(error)))
    assert wrong == []
    assert count > 50


@pytest.mark.parametrize("text", ["configure jobs", "node sett jobs", "events --no-such-flag"])
def test_a_command_that_is_not_there_is_found(text):
    with pytest.raises((click.UsageError, AssertionError)):
        try_span(shlex.split(text))


def test_commands_stand_in_blocks_that_are_tried():
    others = [
        block.name
        for block in every_block()
        if block.language not in {"sh", "console"} and TYPED.search(block.text)
    ]
    assert others == []
    assert TYPED.search("# a comment\npubqueue configure jobs qos=acknowledged\n")
    assert TYPED.search("$ sudo -u pubqueue pubqueue check\n")


# --- python -------------------------------------------------------------------------------------


def undefined(text):
    """Return the names that a program uses and does not define."""
    words = ["--isolated", "--select", "F821", "--output-format", "json", "--exit-zero", "-"]
    done = subprocess.run(
        [sys.executable, "-Im", "ruff", "check", *words],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return {re.findall("`(.+?)`", one["message"])[0] for one in json.loads(done.stdout)}


@pytest.mark.parametrize("page", sorted({block.page for block in blocks("python")}))
def test_names_in_programs_are_defined_above_them_or_introduced_by_the_text(page):
    """A program of a page may go on with what an earlier one of the page has defined."""
    programs = "\n".join(block.text for block in blocks("python") if block.page == page)
    prose = BLOCK.sub("", (ROOT / page).read_text())
    assert {name for name in undefined(programs) if f"`{name}`" not in prose} == set()


def test_a_name_that_is_not_defined_is_found():
    assert undefined("await queueing(client).publish(payload)") == {"queueing", "client", "payload"}


# --- what a stranger sees first -----------------------------------------------------------------

NAMED = {"stomp": "STOMP", "grpc": "gRPC", "rest": "HTTP", "xmpp": "XMPP"}
"""How pages call each face."""


@pytest.mark.parametrize("page", ["README.md", "PACKAGE.md", "docs/index.md", "docs/picture.svg"])
def test_what_a_stranger_sees_first_names_every_protocol(page):
    assert NAMED.keys() == FACES.keys()
    text = (ROOT / page).read_text()
    assert [name for name in (*NAMED.values(), "Spark") if name not in text] == []


# --- the README and the site --------------------------------------------------------------------


def test_the_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 170
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


class Sources(HTMLParser):
    """Gathers what a browser would fetch to show a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        reported = dict(attrs)
        if tag in {"script", "img", "iframe", "source"} and "src" in reported:
            self.found.append(reported["src"])
        if tag == "link" and reported.get("rel") != "canonical":
            self.found.append(reported["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-Im", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_is_built_without_a_warning_and_fetches_nothing_from_others(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        sources = Sources()
        sources.feed(page.read_text())
        assert [one for one in sources.found if re.match("(https?:)?//", one)] == [], page


def test_the_site_documents_every_command_and_import(site):
    said = (site / "reference" / "command-line.html").read_text()
    for name in main.list_commands(click.Context(main)):
        assert f"pubqueue {name}" in said
    said = (site / "reference" / "api.html").read_text()
    assert all(f'id="pubqueue.{name}"' in said for name in getattr(pubqueue, "__all__", ()))
    assert 'id="pubqueue_xeps.batch.Batch"' in said
