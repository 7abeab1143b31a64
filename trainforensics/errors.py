"""Errors that reach the user: one clear line and the exit code that belongs to it."""

EXIT_OK = 0
EXIT_POLICY = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3
EXIT_UNDECIDED = 4


class TrainforensicsError(Exception):
    """A failure the user can act on. The message says what, where and what to do."""

    exit_code = EXIT_INTERNAL


class UsageError(TrainforensicsError):
    """The command line, the configuration or a path is wrong (exit 2)."""

    exit_code = EXIT_USAGE


class CannotJudgeError(TrainforensicsError):
    """Nothing could be read or judged (exit 4)."""

    exit_code = EXIT_UNDECIDED
