"""Methods of `pubqueue.Admin` from the table of operations: their names, parameters and rows."""

from __future__ import annotations

import asyncio
import inspect
import keyword
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from pubqueue.admin import definitions
from pubqueue.admin.connecting import TIMEOUT, Where, linked
from pubqueue.admin.session import changed_schedule
from pubqueue.operations.model import MOMENTS, OF_PAGES, Cell, ParameterKind
from pubqueue.operations.table import OPERATIONS
from pubqueue_xeps.client.threads import takes, wait_for
from pubqueue_xeps.wire.publication import written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from pubqueue.admin.session import Link, Page
    from pubqueue.operations.model import Operation, Parameter, Value

MAX: Final = "max"
LISTS: Final = {"headers": ": "}
"""What stands between name and value of a mapping that is given for a list of lines, if that is not =."""


class Done(msgspec.Struct, frozen=True):
    """The result of an operation that counts nothing."""

    note: str
    """The result in a sentence."""
    warns: bool
    """The operation had no effect, or warns of something: a dead-letter node does not exist, for example."""


# Names.


def method_name(operation: Operation) -> str:
    """Return the name of an operation's method: that of its command."""
    return (operation.command or operation.name).replace(" ", "_").replace("-", "_")


def row_name(operation: Operation) -> str:
    """Return the name of the class of an operation's rows."""
    return f"{''.join(word.capitalize() for word in method_name(operation).split('_'))}Row"


def attribute(name: str) -> str:
    """Return a name of a parameter or a column as an attribute."""
    return f"{name}_" if keyword.iskeyword(name) else name


def is_list(operation: Operation) -> bool:
    """Return whether the answer is a list of rows."""
    return not operation.changes and not operation.single


def signature_of(operation: Operation) -> inspect.Signature:
    """Return the parameters of an operation's method: what is necessary by position, the rest by name."""
    found = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    own = [one for one in operation.parameters if one.name not in OF_PAGES]
    needed = [one for one in own if is_needed(one, operation)]
    found += [
        inspect.Parameter(attribute(one.name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for one in needed
    ]
    names = [one.name for one in own if one not in needed]
    names += [one.name for one in operation.parameters if one.name in OF_PAGES - {MAX}]
    names += [MAX] if is_list(operation) else []
    if not is_list(operation) and "after" in names:
        names.remove("after")  # it continues by itself
    found += [
        inspect.Parameter(attribute(name), inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in names
    ]
    return inspect.Signature(found)


def is_needed(parameter: Parameter, operation: Operation) -> bool:
    """Return whether a call has to give the parameter; a schedule keeps what a change leaves out."""
    needed = parameter.required and not parameter.usual
    return needed and (operation.name != "schedule-change" or parameter.name == "schedule")


# Values.


def words_of(operation: Operation, given: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Return what a call has given as the operation takes it; what is None was not given.

    Raises:
        TypeError, ValueError: a payload cannot be sent.

    """
    kinds = {one.name: one.kind for one in operation.parameters}
    found = {}
    for name, value in given.items():
        plain = name.removesuffix("_")
        if value is not None and plain in kinds:
            found[plain] = _texts(plain, kinds[plain], value)
    if operation.name == "create" and not any(map(_is_kind, found.get("settings", ()))):
        found["settings"] = ("queueing=1", *found.get("settings", ()))  # as the command does
    return found


def _is_kind(setting: str) -> bool:
    """Return whether a setting says that a node is a queue, or is none."""
    return setting.partition("=")[0].strip().rpartition("#")[2] == "queueing"


def _texts(name: str, kind: ParameterKind, value: object) -> tuple[str, ...]:
    if kind is ParameterKind.PAYLOAD:
        try:
            return (written(value),)
        except (TypeError, ValueError) as problem:
            raise type(problem)(f"The {name} {problem}.") from None
    if kind is not ParameterKind.LINES:
        return (_text(value),)
    if isinstance(value, Mapping):
        between = LISTS.get(name, "=")
        return tuple(f"{_text(each)}{between}{_text(of)}" for each, of in value.items())
    return (value,) if isinstance(value, str) else tuple(map(_text, value))  # type: ignore[call-overload]


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def cell_type(cell: Cell) -> Any:  # noqa: ANN401  # a type
    """Return the type of the cells of a kind; it may also be None, except for lists of names."""
    match cell:
        case Cell.COUNT:
            return int
        case Cell.RATE:
            return float
        case Cell.FLAG:
            return bool
        case Cell.NAMES:
            return tuple[str, ...]
        case Cell.MOMENT | Cell.SINCE:
            return datetime
        case _:
            return str


def row_type(operation: Operation) -> type[msgspec.Struct]:
    """Return the class of an operation's rows: an attribute for each column."""
    fields = [
        (attribute(column.name), cell_type(column.cell) | None) for column in operation.columns
    ]
    made = msgspec.defstruct(
        row_name(operation), fields, frozen=True, module="pubqueue.admin.admin"
    )
    made.__doc__ = f"A row of `{method_name(operation)}`."
    return made


def row_of(operation: Operation, made: type[msgspec.Struct], row: Mapping[str, Value]) -> Any:  # noqa: ANN401  # one of these
    """Return a row with moments as aware datetimes."""
    return made(*(_cell(column.cell, row[column.name]) for column in operation.columns))


def _cell(cell: Cell, value: Value) -> object:
    if cell in MOMENTS and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    return value


# The sessions that have the methods.


class Session:
    """A session with a service: a context manager, or used by `open` and `close`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        password: str | None = None,
        config: str | Path | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        config = None if config is None else Path(config)
        self._where = Where(url=url, password=password, config=config)
        self._timeout = timeout
        self._ends = AsyncExitStack()
        self._link: Link | None = None

    async def open(self) -> None:
        """Log in; entering the context manager does the same."""
        if self._link is not None:
            raise RuntimeError("The session is open already.")
        self._link = await self._ends.enter_async_context(
            linked(self._where, timeout=self._timeout)
        )

    async def close(self) -> None:
        """Log out. Closing twice does nothing."""
        self._link = None
        await self._ends.aclose()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def link(self) -> Link:
        """What carries the session."""
        if self._link is None:
            raise RuntimeError("The session is not open: use it as a context manager.")
        return self._link

    async def perform(self, operation: str, /, **parameters: object) -> Page:
        """Perform an operation by its name in the table, and return one page of its answer.

        Raises:
            LookupError: there is no such operation.
            OperationRefused: the service refuses.
            ServiceUnavailable: no answer can come.

        """
        if (row := OPERATIONS.get(operation)) is None:
            raise LookupError(f"there is no operation {operation!r}")
        return await self.link.perform(row, words_of(row, parameters))

    async def node_export(self, *, match: str | None = None) -> str:
        """Return the definitions of the nodes that the account manages, as the command `node export` writes them; `match` is a part of their names.

        Raises:
            OperationRefused: the service refuses.
            ServiceUnavailable: no answer can come.

        """
        return definitions.as_text([one async for one in definitions.exported(self.link, match)])

    async def node_apply(
        self, text: str, *, match: str | None = None, prune: bool = False, dry_run: bool = False
    ) -> tuple[str, ...]:
        """Bring the nodes to the definitions in a text, as the command `node apply` does; return the names of those that had to be changed.

        With `prune` other nodes are deleted with all their items. With `dry_run` nothing is changed. What is done stays if a later node
        fails, and a repetition completes it.

        Raises:
            ConfigurationError: the text has an error, and nothing was changed.
            OperationRefused: the service refuses a change; the error begins with the node.
            ServiceUnavailable: no answer can come.

        """
        wanted = definitions.read(text, "text")
        plan = await definitions.planned(self.link, wanted, match=match, prune=prune)
        if dry_run:
            return plan.nodes
        return tuple([node async for node in definitions.applied(self.link, plan)])


class BlockingSession:
    """A session whose methods block, for programs without asyncio; any number of threads may share it.

    Its arguments and errors are those of the other. It runs in a thread of its own.
    """

    _made: type[Session]

    @takes(Session.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # those of `Session`
        self._twin = self._made(*args, **kwargs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Log in; entering the context manager does the same."""
        if self._loop is not None:
            raise RuntimeError("The session is open already.")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop,), name="pubqueue admin", daemon=True
        )
        self._thread.start()
        try:
            self.wait(self._twin.open())
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Log out. Closing twice does nothing."""
        if self._loop is None:
            return
        try:
            self.wait(self._twin.close())
        finally:
            self._end()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def perform(self, operation: str, /, **parameters: object) -> Page:
        """Perform an operation by its name in the table, and return one page of its answer."""
        page: Page = self.wait(self._twin.perform(operation, **parameters))
        return page

    def node_export(self, *, match: str | None = None) -> str:
        """Return the definitions of the nodes that the account manages."""
        text: str = self.wait(self._twin.node_export(match=match))
        return text

    def node_apply(
        self, text: str, *, match: str | None = None, prune: bool = False, dry_run: bool = False
    ) -> tuple[str, ...]:
        """Bring the nodes to the definitions in a text; return the names of those that had to be changed."""
        applying = self._twin.node_apply(text, match=match, prune=prune, dry_run=dry_run)
        nodes: tuple[str, ...] = self.wait(applying)
        return nodes

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  # whatever it returns
        """Run a coroutine in the thread of the session, and return its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError("The session is not open: use it as a context manager.")
        return wait_for(work, self._loop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.close()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None


# A method for each operation.


def method_of(operation: Operation, made: type[msgspec.Struct]) -> Callable[..., Any]:
    """Return the method of an operation."""
    signature = signature_of(operation)

    def listed(session: Session, /, *args: object, **kwargs: object) -> AsyncIterator[Any]:
        given = dict(signature.bind(session, *args, **kwargs).arguments)
        most = given.pop(MAX, None)
        words = words_of(operation, given)

        async def rows() -> AsyncIterator[Any]:
            async for page in session.link.pages(operation, words, most):
                for row in page.rows:
                    yield row_of(operation, made, row)

        return rows()

    async def shown(session: Session, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  # a row, or Done
        words = words_of(operation, signature.bind(session, *args, **kwargs).arguments)
        if operation.name == "schedule-change":
            words = await changed_schedule(session.link, words)
        if operation.changes and operation.single:
            return row_of(operation, made, await session.link.to_the_end(operation, words))
        page = await session.link.perform(operation, words)
        if not operation.single:
            return Done(page.note, page.warns)
        (row,) = page.rows
        return row_of(operation, made, row)

    return _named(listed if is_list(operation) else shown, operation, signature)


def blocking_method(
    operation: Operation, method: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    """Return the method of an operation that blocks."""

    def listed(session: BlockingSession, /, *args: object, **kwargs: object) -> Iterator[Any]:
        rows = method(session._twin, *args, **kwargs)  # noqa: SLF001  # that of this class

        def each() -> Iterator[Any]:
            try:
                while (row := session.wait(anext(rows, None))) is not None:
                    yield row
            finally:
                session.wait(rows.aclose())

        return each()

    def shown(session: BlockingSession, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  # a row, or Done
        return session.wait(method(session._twin, *args, **kwargs))  # noqa: SLF001  # as above

    return _named(listed if is_list(operation) else shown, operation, signature)


def _named(
    method: Callable[..., Any], operation: Operation, signature: inspect.Signature
) -> Callable[..., Any]:
    method.__name__ = method_name(operation)
    method.__doc__ = f"{operation.label}.\n\n{operation.about}"
    vars(method)["__signature__"] = signature
    return method
