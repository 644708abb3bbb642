"""A configuration file of a test, as the service reads it."""

from pubqueue.config.loading import load


def from_file(folder, text, *, flags=None, environment=None):
    path = folder / "pubqueue.toml"
    path.write_text(text)
    return load(path, flags or {}, environment or {})
