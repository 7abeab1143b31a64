"""The command line assembled from one module a command, and the exit codes that everything ends in."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated

import typer

from trainforensics import __version__
from trainforensics.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, TrainforensicsError, is_full

# Command -> module of this package; the function there has the module's name.
COMMANDS = {
    "analyze": "analyze",
    "gate": "gate",
    "blame": "blame",
    "report": "report",
    "diff": "diff",
    "explain": "explain",
    "import": "import_",
}
SYNONYMS = {"compare": "diff", "analyse": "analyze", "check": "gate"}
EXIT_BROKEN_PIPE = 141


def _version(value: bool) -> None:
    if value:
        print(f"trainforensics {__version__}")
        raise typer.Exit


def _describe(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Post-hoc forensics for training runs: what happened, why, which data did it, and what to do."""


def build() -> typer.Typer:
    """The application with its commands."""
    app = typer.Typer(
        name="trainforensics",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # help rendered by rich takes three times as long to appear
    )
    app.callback()(_describe)
    for name, module in COMMANDS.items():
        app.command(name)(getattr(importlib.import_module(f"trainforensics.cli.{module}"), module))
    return app


def main() -> None:
    """Entry point. Every way out has its exit code; a traceback only with TRAINFORENSICS_DEBUG=1."""
    _open_streams()
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _hang_up()
    except OSError as error:
        _say(f"the results could not be written to stdout: {error}")
        code = _hang_up() and EXIT_USAGE
    sys.exit(code)


def _open_streams() -> None:
    """Closed streams swallow what is written to them, and no terminal's encoding is a reason to fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123  (for as long as the process lives)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    try:
        from typer import main as typer_main  # noqa: PLC0415

        returned = typer_main.get_command(build()).main(prog_name="trainforensics", standalone_mode=False)
        if returned == EXIT_INTERRUPTED:  # how typer answers Ctrl-C
            raise KeyboardInterrupt
        return returned if isinstance(returned, int) else EXIT_OK
    except TrainforensicsError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is how typer answers a broken pipe, with code 1
        return _hang_up()
    except BaseException as error:  # a panic of a library written in Rust is no Exception
        if isinstance(error.__cause__, KeyboardInterrupt):  # while a class was made, as a module loads
            _say("interrupted")
            return EXIT_INTERRUPTED
        return _unexpected(error)


def _unexpected(error: BaseException) -> int:
    if _is_usage(error):
        _show_usage(error)
        return EXIT_USAGE
    if os.environ.get("TRAINFORENSICS_DEBUG"):
        raise error
    if is_full(error):
        _say(f"the results could not be written: {error}; make room, or give another folder with --out")
        _hang_up()  # what is left to print may be what did not fit
        return EXIT_USAGE
    _say(f"internal error: {type(error).__name__}: {error} (set TRAINFORENSICS_DEBUG=1 for the traceback)")
    return EXIT_INTERNAL


def _is_usage(error: BaseException) -> bool:
    """Whether the parser itself rejected the command line."""
    return isinstance(error, typer.BadParameter.__mro__[2])


def _show_usage(error: BaseException) -> None:
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if context is not None and (not message or message.startswith("Usage: ")):  # no command at all: the help is it
        print(context.get_help(), file=sys.stderr)
        return
    hint = f" (try {context.command_path} --help)" if context is not None else ""
    meant = next((known for name, known in SYNONYMS.items() if message.startswith(f"No such command '{name}'")), None)
    if meant is not None:
        message, hint = message.split(" Did you mean")[0].rstrip("."), f"; did you mean {meant}?"
    _say(f"{message.replace('Value error, ', '').rstrip('.')}{hint}")


def _hang_up() -> int:
    """The reader of stdout is gone: say nothing more, and keep the interpreter from flushing into the void."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return EXIT_BROKEN_PIPE


def _say(message: str) -> None:
    print(f"trainforensics: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
