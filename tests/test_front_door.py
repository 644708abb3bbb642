"""`import pubqueue`: what it offers, and what it costs."""

import subprocess
import sys

import pytest

import pubqueue
from pubqueue_xeps import errors, middleware


def test_each_name_is_there():
    assert pubqueue.Next is middleware.Next  # an alias has no name of its own
    names = [name for name in pubqueue.__all__ if name != "Next"]
    assert [getattr(pubqueue, name).__name__ for name in names] == names


def test_every_error_is_offered():
    mine = {
        name
        for name, it in vars(errors).items()
        if isinstance(it, type) and issubclass(it, Exception)
    }
    assert mine <= set(pubqueue.__all__)


def test_no_other_name_is_there():
    with pytest.raises(AttributeError, match="module 'pubqueue' has no attribute 'Queue'"):
        pubqueue.Queue  # noqa: B018


def test_importing_it_imports_no_library():
    """As the command line does for each of its words."""
    asked = "import sys, pubqueue; print(sorted({'slixmpp', 'msgspec', 'pubqueue_xeps'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-Ic", asked], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_what_is_offered_is_listed():
    assert set(pubqueue.__all__) <= set(dir(pubqueue))
