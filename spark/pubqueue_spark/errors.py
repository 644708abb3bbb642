"""The errors of reads and writes. Spark shows their messages in full.

PubqueueSparkError
├── OptionError (ValueError)   the options of the write
├── SchemaError (ValueError)   the columns of the DataFrame
├── RowError (ValueError)      one row: its message names partition, row and reason
└── ServiceError               the service or the way to it

No message contains a payload or a password.
"""

__all__ = ["OptionError", "PubqueueSparkError", "RowError", "SchemaError", "ServiceError"]


class PubqueueSparkError(Exception):
    """The read or write failed."""


class OptionError(PubqueueSparkError, ValueError):
    """An option is unknown, missing, or has an invalid value."""


class SchemaError(PubqueueSparkError, ValueError):
    """The DataFrame's columns are not those of a work item."""


class RowError(PubqueueSparkError, ValueError):
    """A row cannot become an item."""


class ServiceError(PubqueueSparkError):
    """The service refused a request, or cannot be reached."""
