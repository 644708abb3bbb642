"""`pubqueue.Admin` and `pubqueue.BlockingAdmin`: a method for each row of the table of operations.

The methods are made from the table, as the commands are; `admin.pyi` has their types, and `tools/admin` writes it.
"""

from __future__ import annotations

from pubqueue.admin.methods import (
    BlockingSession,
    Session,
    blocking_method,
    method_name,
    method_of,
    row_name,
    row_type,
    signature_of,
)
from pubqueue.operations.table import OPERATIONS


class Admin(Session):
    """Operates a service, over XMPP or HTTP, with the names of the command line.

    async with Admin("https://anna@queue.example.org:9254/") as admin:
        async for queue in admin.overview():
            print(queue.node, queue.depth)
        await admin.redrive("jobs")

    `url` and `password` are as for the commands: without them, the environment has both. On the host of the service, `config` is
    enough: the file of its configuration. `timeout` is in seconds, for the login and for each answer.

    Errors are ConfigurationError, LoginFailed, ServiceUnavailable, and OperationRefused with the condition of the service's
    answer. A change of many items is done part by part: if it fails, the items of earlier parts are changed.
    """


class BlockingAdmin(BlockingSession):
    """An `Admin` whose methods block, for programs without asyncio; any number of threads may share it."""

    _made = Admin


for _operation in OPERATIONS.values():
    _row = row_type(_operation)
    globals()[row_name(_operation)] = _row
    _method = method_of(_operation, _row)
    setattr(Admin, method_name(_operation), _method)
    _blocks = blocking_method(_operation, _method, signature_of(_operation))
    setattr(BlockingAdmin, method_name(_operation), _blocks)
