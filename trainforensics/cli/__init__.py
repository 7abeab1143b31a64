"""The command line: app assembles, one file a command."""

import sys

from trainforensics.errors import EXIT_INTERRUPTED


def main() -> None:
    """Entry point, which also ends without a traceback where it is interrupted while the command line loads."""
    try:
        from trainforensics.cli.app import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        print("trainforensics: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    run()
