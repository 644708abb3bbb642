"""Counts steps: functions of ours that are called, and what our functions call of others, such as builtins and the standard library.

They are counted in every thread. A count knows no load of the machine.
"""

import sys
import threading
from collections import Counter
from contextlib import contextmanager


class Steps:
    """A profile function: counts while it `counts`."""

    def __init__(self):
        self.counts = False
        self.by = Counter()

    def __call__(self, frame, event, argument):
        if not self.counts or event not in {"call", "c_call"}:
            return
        caller = frame if event == "c_call" else frame.f_back
        ours = _is_ours(frame) or (caller is not None and _is_ours(caller))
        if ours:
            name = argument.__qualname__ if event == "c_call" else frame.f_code.co_qualname
            self.by[f"{_place(caller)} -> {name}"] += 1


def _is_ours(frame):
    return frame.f_globals.get("__name__", "").startswith("pubqueue")


def _place(frame):
    if frame is None or not _is_ours(frame):
        return ""
    return f"{frame.f_globals['__name__'].removeprefix('pubqueue.')}.{frame.f_code.co_qualname}"


@contextmanager
def counted_steps():
    """Yield the steps of this thread and of those that begin from now on."""
    counted = Steps()
    threading.setprofile(counted)
    sys.setprofile(counted)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
