"""The users of the configuration: what is read, and what is refused."""

import pytest
from config.files import DIGEST, PASSWORD, RIGHT, USER, of_service
from rich.pretty import pretty_repr

from pubqueue.accounts.credentials import Role
from pubqueue.config.users import accounts_of, locals_of, locked_out, summary, users_of
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import Jid


def test_a_user_is_read(tmp_path):
    more = f"""
    token_sha256 = ['{DIGEST.upper()}']
    certificate = 'O=example, CN=etl'
    roles = ['viewer', 'admin']
    local = true
    faces = ['page']
    """
    settings = of_service(tmp_path, USER + more)
    (user,) = users_of(settings)
    assert user.password.matches(RIGHT)
    assert user.tokens == {DIGEST}
    assert user.certificate == (("commonName", "etl"), ("organizationName", "example"))
    assert user.roles == {Role.VIEWER, Role.ADMIN}
    assert (user.local, user.faces) == (True, {"page"})
    assert settings.account_of("etl") == "etl@queue.example.org"
    assert summary([user]) == "1, 1 with a password, 1 with a token, 1 with a certificate"


def test_a_password_may_stand_in_a_file(tmp_path):
    (tmp_path / "etl").write_text(f"{PASSWORD}\nsecond line\n")
    (user,) = users_of(
        of_service(tmp_path, f"[[user]]\nname = 'etl'\npassword_file = '{tmp_path}/etl'")
    )
    assert user.password.matches(RIGHT)


def test_an_address_that_cannot_log_in_is_reported(tmp_path):
    users = users_of(of_service(tmp_path, USER + "[[user]]\nname = 'bare'"))
    (sentence,) = locked_out(users)
    assert "user 'bare' has no password" in sentence


def test_a_user_with_the_role_admin_is_an_administrator_and_a_local_one_is_local(tmp_path):
    text = "admins = ['boss@example.org']\n" + USER + "roles = ['admin']\nlocal = true"
    settings = of_service(tmp_path, text)
    assert settings.administrators() == ("boss@example.org", "etl@queue.example.org")
    assert locals_of(settings) == ("etl@queue.example.org",)
    principals = accounts_of(settings).principals
    etl = principals.of(Jid("etl@queue.example.org/line.1.1"))
    assert (etl.admin, etl.local) == (True, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *(
            (f"[[user]]\nname = '{name}'", "matching regex")
            for name in ("", "Etl", "a b", "a@b", "x" * 65, "ä")
        ),
        ("[[user]]\n", "missing required field `name`"),
        (
            USER + "pasword = 'x'",
            "unknown field `pasword` - at `$.user[0]`; did you mean password?",
        ),
        (USER + "roles = ['root']", "Invalid enum value 'root' - at `$.user[0].roles[0]`; one of"),
        ("[[user]]\nname = 'etl'\npassword = 'geheim'", "user 'etl': password: must be a scrypt"),
        (USER + "password_file = '/none'", "user 'etl': password and password_file are both set"),
        ("[[user]]\nname = 'a'\npassword_file = '/none'", "password_file /none cannot be read"),
        ("[[user]]\nname = 'a'\npassword_file = '/dev/null'", "password_file /dev/null: must be"),
        (USER + "token_sha256 = ['geheim']", "user 'etl': token_sha256 has digests of tokens"),
        (USER + "certificate = 'etl'", "user 'etl': certificate must be the subject"),
        (
            USER + "faces = ['pages']",
            "user 'etl': faces has 'pages'; one of page, stomp, grpc, rest; did you mean page?",
        ),
        (USER + USER, "user 'etl' is declared twice"),
        *(
            (f"[[user]]\nname = 'a'\n{same}\n[[user]]\nname = 'b'\n{same}", f"have the same {key}")
            for key, same in (
                ("token_sha256", f"token_sha256 = ['{DIGEST}']"),
                ("certificate", "certificate = 'CN=a'"),
            )
        ),
    ],
)
def test_what_cannot_be_a_user_is_one_sentence_without_a_secret(tmp_path, text, sentence):
    with pytest.raises(ConfigError) as refused:
        of_service(tmp_path, text)
    assert sentence in str(refused.value)
    assert refused.value.key.startswith(("user", "password_file"))
    assert "geheim" not in str(vars(refused.value)) + str(refused.value)


def test_passwords_and_digests_are_not_shown(tmp_path):
    settings = of_service(tmp_path, f"{USER}token_sha256 = ['{DIGEST}']")
    for shown in (repr(settings), pretty_repr(settings), repr(settings.user)):
        assert "etl" in shown
        assert PASSWORD not in shown
        assert DIGEST not in shown
