"""`pubqueue user`: what it prints is what the configuration takes, and it says whether a secret is right."""

import os
import pty
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from pubqueue.accounts import credentials
from pubqueue.cli import local_checks, main
from pubqueue.cli.output import good, look

RIGHT = "correct horse"


def run(*words, said=""):
    result = CliRunner().invoke(main, ["user", *words], input=said)
    return result.exit_code, result.stdout, result.stderr


def checked(config):
    words = ["check", "--offline", "--config", config]
    result = CliRunner().invoke(main, words, env={"PUBQUEUE_SECRET": "s"})
    return result.exit_code, result.stdout, result.stderr


def configured(folder, more):
    path = folder / "pubqueue.toml"
    path.write_text(
        f"jid = 'queue.example.org'\n[[user]]\nname = 'etl'\nroles = ['viewer']\n{more}"
    )
    return str(path)


def test_a_password_is_printed_as_the_configuration_takes_it():
    code, out, err = run("password", said=f"{RIGHT}\n")
    assert (code, err) == (0, "")
    assert credentials.read_password_hash(out.strip()).matches(RIGHT)


def test_a_generated_password_is_printed_with_the_string_that_the_configuration_takes():
    made = []
    for _ in range(2):
        code, out, err = run("password", "--generate")
        assert (code, err) == (0, "")
        (first, plain), (second, hashed) = (line.split() for line in out.splitlines())
        assert (first, second) == ("generated", "password")
        assert credentials.read_password_hash(hashed).matches(plain)
        made.append(plain)
    assert made[0] != made[1]


@pytest.mark.parametrize("said", ["", "short\n", "x" * 2000])
def test_what_cannot_be_a_password_is_one_sentence(said):
    code, out, err = run("password", said=said)
    assert (code, out) == (2, "")
    assert err.startswith("pubqueue: a password has at ")


@pytest.mark.parametrize(("again", "code"), [(RIGHT, 0), ("other horse", 1)])
def test_at_a_terminal_it_is_asked_for_twice_and_not_shown(again, code):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-Im", "pubqueue", "user", "password"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    ) as asking:
        os.close(theirs)
        shown = b""
        for asked, said in ((b"Password: ", RIGHT), (b"Again: ", again)):
            while asked not in shown:
                shown += os.read(ours, 1000)
            os.write(ours, f"{said}\n".encode())
        if code:
            while b"do not match" not in shown:
                shown += os.read(ours, 1000)
            asking.terminate()
        out = asking.communicate()[0].decode()
    os.close(ours)
    assert RIGHT.encode() not in shown
    assert bool(out) is not bool(code)
    assert code or credentials.read_password_hash(out.strip()).matches(RIGHT)


def test_a_token_is_printed_with_its_digest_and_is_right(tmp_path):
    code, out, err = run("token")
    assert (code, err) == (0, "")
    (_, token), (_, digest) = (line.split() for line in out.splitlines())
    assert digest == sha256(token.encode()).hexdigest()
    assert token not in run("token")[1]
    config = configured(tmp_path, f"token_sha256 = ['{digest}']")
    words = "check", "etl", "--config", config, "--token"
    assert run(*words, said=f"{token}\n") == (
        0,
        "the token is right; account etl@queue.example.org, roles: viewer\n",
        "",
    )
    assert run(*words, said=f"{digest}\n") == (1, "", "pubqueue: the token of etl is wrong\n")


def test_a_password_is_right_or_wrong(tmp_path):
    config = configured(tmp_path, f"password = '{credentials.make(RIGHT).text}'")
    words = "check", "etl", "--config", config
    assert run(*words, said=f"{RIGHT}\n") == (
        0,
        "the password is right; account etl@queue.example.org, roles: viewer\n",
        "",
    )
    for wrong in ("", "wrong", f"{RIGHT} "):
        assert run(*words, said=wrong) == (1, "", "pubqueue: the password of etl is wrong\n")


def test_an_unknown_user_is_reported_with_similar_names(tmp_path):
    config = configured(tmp_path, "")
    assert run("check", "etll", "--config", config) == (
        2,
        "",
        "pubqueue: there is no user 'etll'; did you mean etl?\n",
    )
    assert run("check", "etl", "--config", "/none")[0] == 2
    assert run("check", "etl", "--config", config, said="x\n")[0] == 1


def test_check_and_doctor_report_how_many_there_are_and_show_no_secret(tmp_path):
    string, digest = credentials.make(RIGHT).text, sha256(b"x" * 20).hexdigest()
    more = f"password = '{string}'\ntoken_sha256 = ['{digest}']\n[[user]]\nname = 'bare'\n"
    config = configured(tmp_path, more)
    code, out, err = checked(config)
    assert (code, err) == (0, "")
    says = "2, 1 with a password, 1 with a token"
    alone = (
        "user 'bare' has no password, token or certificate, so no login as this user is possible"
    )
    assert out.splitlines()[1:3] == [f"users: {says}", f"users: {alone}"]
    found = [one for one in local_checks.local_findings(Path(config)) if one.about == "users"]
    assert found == [good("users", says), look("users", alone)]
    for secret in (RIGHT, string, digest):
        assert secret not in out + str(found)
