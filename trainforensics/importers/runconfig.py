"""What a run was configured with: YAML, JSON and TOML files (config, hparams, DeepSpeed ...), a launch script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainforensics.importers import commandline, configfile
from trainforensics.importers.base import Config, Head, Record, Source, open_binary
from trainforensics.importers.jsonlogs.document import flat_config
from trainforensics.model import ReadWarning

FORMAT = "config"

_LARGEST = 4 << 20
_NAMES = re.compile(
    r"(?:config|cfg|hparams|hyperparameters|hyper_params|args|arguments|training_args|train_args|train_config|run_config|params|parameters|"
    r"settings|options|opts?|flags|ds_config\w*|deepspeed\w*|zero\d?\w*|curriculum|data_mix|mixture|schedule|recipe|experiment)"
    r"(?:[._-][\w-]+)?\.(?:ya?ml|json|toml)$",
    re.IGNORECASE,
)
_NOT_CONFIG = re.compile(
    r"tokenizer|generation_config|special_tokens|added_tokens|preprocessor|vocab|wandb-(?:summary|metadata)|index\.json$"
)
# Keys that only a training configuration has.
_KEYS = re.compile(
    r"^(?:learning_rate|lr|batch_size|\w*batch_size\w*|optim(?:izer)?|weight_decay|max_steps|total_steps|num_epochs|epochs|seed|"
    r"warmup\w*|gradient_\w+|grad_clip|max_grad_norm|fp16|bf16|precision|vocab_size|zero_optimization|scheduler|logging_steps|"
    r"model|trainer|training|train|data|lr_\w+|sampler|from_step|hidden_size|num_hidden_layers|shuffle|world_size|num_workers)$",
    re.IGNORECASE,
)


def sniff(head: Head) -> float:
    """A small YAML, JSON or TOML mapping with keys of a training configuration, or a file named like one."""
    if head.size > _LARGEST or len(head.data) < min(head.size, 1) or _NOT_CONFIG.search(head.name.lower()):
        return 0.0
    if b'"log_history"' in head.data:
        return 0.0
    if is_script(head.path):
        return 0.5 if _is_training(commandline.script(head.data.decode("utf-8", "replace"))) else 0.0
    if not head.name.lower().endswith((".yaml", ".yml", ".json", ".toml")):
        return 0.0
    named = _NAMES.match(head.name) is not None
    if len(head.data) < head.size and not head.path.name.endswith((".gz", ".zst")):
        return 0.55 if named else 0.0
    try:
        values = _settings(head.name, head.data)
        keys = [*(str(key).rsplit(".", 1)[-1] for key in flat_config(values)), *map(str, values)]
    except (ValueError, RecursionError):
        return 0.0
    if named:
        return 0.6
    return 0.5 if _is_training(keys) else 0.0


def is_script(path: Path) -> bool:
    """Whether a file is the only shell script of its folder, which then launched what lies beside it."""
    return path.suffix == ".sh" and len(list(path.parent.glob("*.sh"))) == 1


def _is_training(keys: Iterable[str]) -> bool:
    return sum(bool(_KEYS.match(key)) for key in keys) >= 2


def read(source: Source) -> Iterator[Record]:
    """The configuration on one level, keys joined by "."."""
    with open_binary(source.path) as stream:
        data = stream.read(_LARGEST)
    name = source.path.name.removesuffix(".gz").removesuffix(".zst")
    try:
        yield Config(flat_config(_settings(name, data)))
    except (ValueError, RecursionError) as error:
        yield ReadWarning("damaged-file", source.label, f"no configuration could be read from it ({error})")


def _settings(name: str, data: bytes) -> Mapping[str, Any]:
    """The mapping a file holds; a list counts as the value of the file's own name. Raises ValueError without one."""
    if name.endswith(".sh"):
        return commandline.script(data.decode("utf-8", "replace"))
    values = configfile.parse(name, data)
    if isinstance(values, list) and values and all(isinstance(item, Mapping) for item in values):
        return {name.split(".", 1)[0]: values}
    if not isinstance(values, Mapping) or not values:
        raise ValueError("no mapping of names to values")
    return values
