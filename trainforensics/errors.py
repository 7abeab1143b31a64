"""Errors that reach the user: one clear line and the exit code that belongs to it."""

import errno
import os

EXIT_OK = 0
EXIT_POLICY = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3
EXIT_UNDECIDED = 4
EXIT_INTERRUPTED = 130


class TrainforensicsError(Exception):
    """A failure the user can act on. The message says what, where and what to do."""

    exit_code = EXIT_INTERNAL


class UsageError(TrainforensicsError):
    """The command line, the configuration or a path is wrong (exit 2)."""

    exit_code = EXIT_USAGE


class CannotJudgeError(TrainforensicsError):
    """Nothing could be read or judged (exit 4)."""

    exit_code = EXIT_UNDECIDED


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_full(error: BaseException) -> bool:
    """Whether something could not be written because there is no room for it."""
    told = os.strerror(errno.ENOSPC) in str(error)  # by a library that hands errors on as text
    return told or (isinstance(error, OSError) and error.errno in _FULL)
