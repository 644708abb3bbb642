"""The target of `pubqueue worker MODULE:NAME`: handlers, or a function that is one."""

from __future__ import annotations

import inspect
import sys
import traceback
from importlib import import_module
from pathlib import Path

from pubqueue_xeps.worker.handling.handlers import Handlers


class TargetError(Exception):
    """The target cannot be run; the message is one sentence. Fact: `target`, or its module."""

    def __init__(self, message: str, target: str) -> None:
        super().__init__(message)
        self.target = target


def load(target: str) -> Handlers:
    """Import the target, from the current directory too, as Python's own tools do.

    A function becomes the handler of all items. Raises TargetError; for a broken module, the traceback is
    printed as well.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetError(f"{target!r} is not of the form module:function", target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: object = _module(module_name, here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(f"the module {module_name} has no {name}", target)
        found = getattr(found, part)
    return _handlers(found, target)


def _module(name: str, here: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise TargetError(
                f"there is no module {missing}, neither in {here} nor installed", name
            ) from None
        raise TargetError(
            f"the module {name} needs {missing}, which is not installed", name
        ) from None
    except ImportError as problem:
        raise TargetError(f"the module {name} cannot be imported: {problem}", name) from None
    except Exception as problem:
        traceback.print_exc()
        kind = type(problem).__name__
        raise TargetError(f"the module {name} cannot be imported ({kind})", name) from None


def _handlers(found: object, target: str) -> Handlers:
    if isinstance(found, Handlers):
        if not len(found):
            raise TargetError(f"{target} has no handlers", target)
        return found
    if inspect.isclass(found) or not callable(found):
        raise TargetError(f"{target} is neither a function nor Handlers", target)
    handlers = Handlers()
    try:
        handlers.handler()(found)
    except TypeError as problem:
        raise TargetError(str(problem).rstrip("."), target) from None
    return handlers
