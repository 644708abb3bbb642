"""A configuration file of a test, as the service reads it, and a user for it."""

from hashlib import sha256

from pubqueue.accounts import credentials
from pubqueue.config.loading import load

START = "jid = 'queue.example.org'\nsecret = 'a'\n"
RIGHT, TOKEN = "correct horse", "a-token-of-twenty-two-c"
PASSWORD = credentials.make(RIGHT).text
DIGEST = sha256(TOKEN.encode()).hexdigest()
USER = f"[[user]]\nname = 'etl'\npassword = '{PASSWORD}'\n"


def from_file(folder, text, *, flags=None, environment=None):
    """Return the settings of a file with this text."""
    path = folder / "pubqueue.toml"
    path.write_text(text)
    return load(path, flags or {}, environment or {})


def of_service(folder, text):
    """Return the settings of a file that begins with what every service has."""
    return from_file(folder, START + text)
