"""The source of the account's password."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pubqueue_spark.errors import OptionError

PASSWORDS: Final = ("password", "passwordFile", "passwordEnv")


@dataclass(frozen=True, slots=True)
class Secret:
    """The source of the password, which is read where it is used, and never shown."""

    option: Literal["password", "passwordFile", "passwordEnv"]
    value: str = field(repr=False)

    def read(self) -> str:
        """Return the password, if need be from this machine's file or environment."""
        match self.option:
            case "password":
                return self.value
            case "passwordFile":
                return self._of_file()
            case "passwordEnv":
                return self._of_environment()

    def _of_file(self) -> str:
        try:
            found = Path(self.value).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise OptionError(
                f"option passwordFile: {self.value} cannot be read ({error.strerror}); it is"
                " needed on the driver and on every executor."
            ) from None
        except UnicodeDecodeError:
            raise OptionError(f"option passwordFile: {self.value} is not text in UTF-8.") from None
        if not found:
            raise OptionError(
                f"option passwordFile: {self.value} is empty; put the password there."
            )
        return found

    def _of_environment(self) -> str:
        found = os.environ.get(self.value)
        if not found:
            raise OptionError(
                f"option passwordEnv: the variable {self.value} is not set here; it is needed on"
                " the driver and on every executor."
            )
        return found
