"""One module a log format; `base` holds the protocol, `rows/` what row-shaped formats share."""

_FORMATS = (
    "tensorboard",
    "wandb",
    "wandb.files",
    "jsonlogs.jsonlines",
    "jsonlogs.trainer_state",
    "table",
    "manifest",
    "indexmap",
    "runconfig",
    "console",
)

MODULES: tuple[str, ...] = tuple(f"trainforensics.importers.{name}" for name in _FORMATS)
