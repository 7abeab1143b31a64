"""One module a log format. Shared: `base` (the protocol), `rows/` (row-shaped logs), `printed/` (console text)."""

_FORMATS = (
    "tensorboard",
    "wandb",
    "wandb.files",
    "mlflow",
    "jsonlogs.jsonlines",
    "jsonlogs.trainer_state",
    "table",
    "markdown",
    "manifest",
    "indexmap",
    "runconfig",
    "console",
)

MODULES: tuple[str, ...] = tuple(f"trainforensics.importers.{name}" for name in _FORMATS)
