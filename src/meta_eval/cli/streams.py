"""stdout and stderr of the command line: any text is accepted, and what cannot be written is a message.

A reader of stdout that goes away, such as ``head``, has read enough: the command ends in silence, with the exit code
of its result.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.base.isolation import own_stderr
from meta_eval.base.secrets import hide_secrets
from meta_eval.base.worker import own_stdout

# The beginning of a line that a service of CI takes for a command, as a name of somebody's may have it.
_COMMAND = re.compile(r"(?m)^([ \t]*)(:(?=:)|#(?=#(?:\[|vso\[)))")


class StreamError(UserError):
    """stdout cannot be written: the disk is full."""


class Stream:
    """The current standard stream. It accepts any text and turns errors into messages.

    Errors of stderr are ignored: nobody can read a message, but the exit code remains.
    """

    def __init__(self, *, stderr: bool, bound: Any = None) -> None:
        self._stderr, self._bound = stderr, bound

    @property
    def _file(self) -> Any:
        return self._bound or (own_stderr() if self._stderr else own_stdout())

    def write(self, text: str) -> int:
        text = _COMMAND.sub(r"\1\2 ", text)
        if self._file is not None:
            try:
                self._file.write(text)
            except UnicodeEncodeError:  # the terminal's encoding lacks a character
                encoding = self._file.encoding
                self._file.write(text.encode(encoding, "backslashreplace").decode(encoding))
            except (OSError, ValueError) as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        if self._file is not None:
            try:
                self._file.flush()
            except (OSError, ValueError) as error:
                self._fail(error)

    def _fail(self, error: OSError | ValueError) -> None:
        with contextlib.suppress(OSError):
            # Python flushes again at exit, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
        if not self._stderr and not isinstance(error, BrokenPipeError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise StreamError(f"cannot be written: {reason}", where="stdout") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


out = Stream(stderr=False)


def print_result(result: Any) -> None:
    """Print a result for machines on stdout.

    Args:
        result: A text as it stands, or plain data, which is printed as JSON without credentials.

    Raises:
        StreamError: stdout cannot be written.
    """
    text = result if isinstance(result, str) else json.dumps(hide_secrets(result, named=False))
    out.write(text + "\n")
    out.flush()
