"""One module a log format; `base` holds the protocol."""

MODULES: tuple[str, ...] = ()
