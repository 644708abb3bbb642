"""The container, as far as that can be judged without a registry of images: a linter reads its file, and each instruction and name
in it is what it should be.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from harness.documents.documented import ROOT, blocks

from pubqueue.cli import COMMANDS
from pubqueue.config.loading import ENVIRONMENT, load

FOLDER = ROOT / "packaging" / "container"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
KNOWN = {
    "ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD",
}  # fmt: skip
SERVICE_KEYS = {
    "image", "build", "restart", "ports", "volumes", "secrets", "networks", "depends_on", "environment",
    "stop_grace_period", "read_only", "tmpfs", "cap_drop", "security_opt",
}  # fmt: skip


def instructions():
    """Return each instruction with what is behind it."""
    text = (FOLDER / "Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def environment_of_image():
    (words,) = (rest for word, rest in instructions() if word == "ENV")
    return dict(one.split("=", 1) for one in shlex.split(words))


def test_the_linter_finds_nothing():
    hadolint = Path(sys.prefix, "bin", "hadolint")
    done = subprocess.run(
        [hadolint, "--no-color", FOLDER / "Containerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_its_instructions_are_known_and_its_images_have_a_version():
    assert {word for word, _ in instructions()} <= KNOWN
    images = [rest.partition("=")[2] for word, rest in instructions() if word == "ARG"]
    images += [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    # what is built in one stage is run in the other, with the same Python
    assert {rest.split()[0] for word, rest in instructions() if word == "FROM"} == {"${BASE}"}
    for image in images:
        assert re.fullmatch(r"docker\.io/[a-z/]+:[0-9][a-z0-9.-]+", image), image


def test_what_is_copied_is_there():
    copied = [rest.split() for word, rest in instructions() if word == "COPY"]
    here = [words[:-1] for words in copied if not words[0].startswith("--from=")]
    assert all((ROOT / name).exists() for names in here for name in names)
    stages = {rest.rpartition(" AS ")[2] for word, rest in instructions() if " AS " in rest}
    others = {words[0].removeprefix("--from=") for words in copied} & stages
    assert others == stages


def test_builders_are_given_what_is_copied_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert rules[-1] == "**/__pycache__"
    copied = {
        name
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from=")
        for name in rest.split()[:-1]
    }
    assert {rule.removeprefix("!") for rule in rules[1:-1]} == copied


def test_it_is_not_run_by_root_and_starts_a_command_of_ours():
    last = dict(instructions())
    assert last["USER"] == "5254:5254"
    assert json.loads(last["ENTRYPOINT"]) == ["pubqueue"]
    assert json.loads(last["CMD"])[0] in COMMANDS
    order = [word for word, _ in instructions()]
    assert order.index("USER") > max(place for place, word in enumerate(order) if word == "RUN")


def test_its_probe_is_a_program_and_asks_where_the_service_listens():
    probe = dict(instructions())["HEALTHCHECK"]
    command = json.loads(probe.partition("CMD ")[2])
    compile(command[2], "probe", "exec")
    assert f"http://{environment_of_image()['PUBQUEUE_HTTP']}/healthz" in command[2]


def test_its_shell_commands_are_such():
    for word, rest in instructions():
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)


def test_the_service_of_compose_has_settings_that_can_be_served(tmp_path):
    given = COMPOSE["services"]["pubqueue"]["environment"]
    secret = tmp_path / "component"
    secret.write_text("hush\n")
    together = environment_of_image() | given
    ours = {name for name in together if name.startswith("PUBQUEUE_")}
    assert ours <= ENVIRONMENT.keys()
    settings = load(None, {}, together | {"PUBQUEUE_SECRET_FILE": str(secret)})
    assert settings.store == "sqlite:///var/lib/pubqueue/pubqueue.db"
    assert [node.name for node in settings.node] == ["jobs"]
    assert settings.address() == ("prosody", 5347)
    assert msgspec.to_builtins(settings)["jid"] == "queue.localhost"


def test_compose_names_only_what_it_has():
    assert COMPOSE.keys() == {"services", "networks", "volumes", "secrets"}
    for service in COMPOSE["services"].values():
        assert service.keys() <= SERVICE_KEYS
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys()
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        assert set(service["secrets"]) <= COMPOSE["secrets"].keys()
        for mounted in service["volumes"]:
            source, target, *_ = mounted.split(":")
            assert target.startswith("/")
            assert (FOLDER / source).is_file() if "/" in source else source in COMPOSE["volumes"]
    queue = COMPOSE["services"]["pubqueue"]
    build = queue["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    (volume,) = (rest for word, rest in instructions() if word == "VOLUME")
    assert queue["volumes"] == [f"queues:{volume}"]
    assert queue["environment"]["PUBQUEUE_SECRET_FILE"] == "/run/secrets/component"


# --- make image -----------------------------------------------------------------------------------------

A_BUILDER = """#!/bin/sh
[ "$1" = info ] && exit 0
printf '%s\\n' "$PWD" "$(basename "$0")" "$@" > "$SAID"
"""


def image(tmp_path, *builders, **more):
    """Run tools/image where only these builders are there; return how it ended, and what the builder was told."""
    programs, said = tmp_path / "programs", tmp_path / "said"
    programs.mkdir()
    for name in ("dirname", "basename", "sed"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    for name in builders:
        (programs / name).write_text(A_BUILDER)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", ROOT / "tools" / "image"],
        env={"PATH": str(programs), "SAID": str(said)} | more,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, said.read_text().splitlines() if said.exists() else []


@pytest.mark.parametrize(
    ("builders", "more", "taken"),
    [
        (("docker", "podman"), {}, "podman"),
        (("buildah", "docker"), {}, "docker"),
        (("buildah",), {}, "buildah"),
        (("docker", "podman"), {"BUILDER": "docker"}, "docker"),
        (("podman",), {"BASE": "localhost/own:1"}, "podman"),
    ],
)
def test_the_first_builder_that_works_builds_it(tmp_path, builders, more, taken):
    done, said = image(tmp_path, *builders, **more)
    assert done.returncode == 0, done.stderr
    file = "packaging/container/Containerfile"
    tags = "--tag", "pubqueue:0.1.0", "--tag", "pubqueue:latest"
    base = ["--build-arg", f"BASE={more['BASE']}"] if "BASE" in more else []
    # only this format has the probe, and docker knows no other
    form = [] if taken == "docker" else ["--format", "docker"]
    assert said == [str(ROOT), taken, "build", "--file", file, *tags, *base, *form, "."]


def test_without_a_builder_it_names_those_that_do(tmp_path):
    done, _ = image(tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "image: no builder of images works here: install podman, docker or buildah\n"
    )


# --- the command of the page ------------------------------------------------------------------------------


def test_the_command_of_the_page_has_settings_that_can_be_served(tmp_path):
    """Its environment is a configuration, its volume that of the image, its secret where the environment has it."""
    page = "docs/operations/container.md"
    (text,) = (it.text for it in blocks("sh") if (it.page, it.number) == (page, 2))
    words = shlex.split(text.partition("podman run ")[2])
    assert words[-1] == "pubqueue"
    given = [(word, words[place + 1]) for place, word in enumerate(words[:-1])]
    environment = dict(value.split("=", 1) for word, value in given if word == "--env")
    (queues, secret) = (value for word, value in given if word == "--volume")
    (volume,) = (rest for word, rest in instructions() if word == "VOLUME")
    assert queues == f"queues:{volume}"
    source, place, mode = secret.split(":")
    assert text.splitlines()[0].split()[-1] == source
    assert "-o 5254 " in text
    assert (place, mode) == (environment["PUBQUEUE_SECRET_FILE"], "ro")
    file = tmp_path / "secret"
    file.write_text("hush\n")
    together = environment_of_image() | environment
    assert {name for name in together if name.startswith("PUBQUEUE_")} <= ENVIRONMENT.keys()
    settings = load(None, {}, together | {"PUBQUEUE_SECRET_FILE": str(file)})
    assert settings.store == f"sqlite://{volume}/pubqueue.db"
    assert settings.address() == ("127.0.0.1", 5347)


@pytest.mark.e2e
def test_prosody_finds_nothing_wrong_with_its_settings(tmp_path):
    secret = tmp_path / "component"
    secret.write_text("hush\n")
    text = (FOLDER / "prosody.cfg.lua").read_text()
    assert "/run/secrets/component" in text
    for path, there in (
        ("/run/secrets/component", secret),
        ("/var/lib/prosody", tmp_path),
    ):
        text = text.replace(path, str(there))
    config = tmp_path / "prosody.cfg.lua"
    config.write_text(text)
    done = subprocess.run(
        ["prosodyctl", "--root", "--config", config, "check", "config"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed" in done.stdout, done.stdout


@pytest.mark.parametrize("part", ["requirements.lock", "builder.lock"])
def test_the_locked_packages_are_those_that_are_needed(part):
    """`tools/service_lock` writes the files that the package and the container install from."""
    code = f"import runpy; print(runpy.run_path('tools/service_lock')['lines']({part!r}), end='')"
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-I", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (ROOT / "packaging" / part).read_text()
