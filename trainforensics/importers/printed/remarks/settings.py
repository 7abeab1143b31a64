"""What console text says about the run's configuration: tables of arguments, command lines, announced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from trainforensics.importers.commandline import flags, value

# What Hugging Face announces, under the names of its arguments.
_ANNOUNCED = {
    "total optimization steps": "max_steps",
    "gradient accumulation steps": "gradient_accumulation_steps",
    "num epochs": "num_train_epochs",
    "instantaneous batch size per device": "per_device_train_batch_size",
    "num examples": "num_examples",
}
_DOTTED = re.compile(r"^\s*([A-Za-z][\w./-]*) \.{2,}\s*(.+?)\s*$")
_ASSIGNED = re.compile(r"^\s+([A-Z][\w &(),./]*?) = ([\d,.]+)$")
# nanoGPT's first lines: "tokens per iteration will be: 1,024", "found vocab_size = 65 (inside data/meta.pkl)".
_FOUND = re.compile(r"^(?:found )?(tokens per iteration|vocab_size)(?: will be)?\s?[:=] ([\d,]+)(?: \(.*\))?$")
_CALL = re.compile(r"(?:Namespace|\w*Arguments|\w*Config|\w*Args)\((.*)\)?\s*$")
_ARGUMENT = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^,()]+)")
_LINE_ARGUMENT = re.compile(r"^\s*['\"]?([A-Za-z_][\w.]*)['\"]?\s*[:=]\s*([^:/]+?),?\s*$")
_KNOWN = re.compile(
    r"^(?:\w+[._])*(?:lr|learning_rate|batch_size|micro_batch|\w*batch_size\w*|max_steps|max_iters|train_iters|warmup\w*|weight_decay|"
    r"\w*beta\d?|seed|grad_clip|max_grad_norm|clip_grad|gradient_\w+|fp16|bf16|dtype|precision|optim\w*|num_train_epochs|"
    r"logging_steps|log_interval|eval_interval|save_steps|save_interval|num_layers|hidden_size|seq_length|block_size|n_layer|n_head|"
    r"n_embd|world_size|zero_stage|packing|lora_\w+|lr_scheduler_type|scheduler|loss_scale|vocab_size|total_steps|num_epochs|epochs)$",
    re.IGNORECASE,
)
_PAIR = re.compile(r"(?:^|\s)([A-Za-z_]\w*):([^\s:/,]+)(?=\s|$)")
_PAIRS = re.compile(r"\s*[A-Za-z_]\w*:[^\s:/,]+(?:\s+[A-Za-z_]\w*:[^\s:/,]+)+\s*$")
_BETWEEN = re.compile(r"\s*[|,;]\s+")
_ENTRY = re.compile(r"([A-Za-z_][\w.]*)\s*[:=]\s*([^:=\s]+)")
_FEWEST_ENTRIES, _FEWEST_KNOWN, _LONGEST_ENTRIES = 3, 2, 1000
_MOST = 4000


@dataclass(slots=True)
class Settings:
    """Those that were found; what was stated first counts."""

    found: dict[str, Any] = field(default_factory=dict)

    def look(self, line: str, *, begun: bool) -> bool:
        """Whether a line states settings; once the log has `begun` only where it looks like it."""
        if begun and "=" not in line and " .." not in line:
            return False
        stated = settings_of(line, len(self.found))
        self.found = {**stated, **self.found}
        return bool(stated)


def settings_of(line: str, known: int) -> dict[str, Any]:
    """The settings that a line states; `known` is how many there are already."""
    if known > _MOST or len(line) > 20_000:
        return {}
    if " .." in line and (found := _DOTTED.match(line[_body(line) :])):
        return {found[1]: value(found[2])}
    if " = " in line and (found := _ASSIGNED.match(line)):
        name = found[1].strip().lower()
        return {_ANNOUNCED.get(name, found[1].strip()): value(found[2])}
    if found := _FOUND.match(line.rstrip()):
        return {found[1].replace(" ", "_"): value(found[2].replace(",", ""))}
    if given := flags(line):
        return given
    if "(" in line and "=" in line and (call := _CALL.search(line)):
        return {name: value(text) for name, text in _ARGUMENT.findall(call[1])}
    if _PAIRS.match(line):
        return {name: value(text) for name, text in _PAIR.findall(line)}
    return _entries(line) or _argument(line)


def _argument(line: str) -> dict[str, Any]:
    """A setting alone on its line, if its name is a known one."""
    if (
        len(line) < 200
        and (found := _LINE_ARGUMENT.match(line.removeprefix("Overriding: ")))
        and _KNOWN.match(found[1])
    ):
        return {found[1]: value(found[2])}
    return {}


def _entries(line: str) -> dict[str, Any]:
    """Settings of one line, "n_layer = 2 | n_embd = 64 | tied = True": several, and known ones among them."""
    if len(line) > _LONGEST_ENTRIES or line.count("=") + line.count(":") < _FEWEST_ENTRIES:
        return {}
    entries = [_ENTRY.fullmatch(part.strip()) for part in _BETWEEN.split(line)]
    found = {entry[1]: value(entry[2]) for entry in entries if entry}
    known = sum(_KNOWN.match(name) is not None for name in found)
    return found if len(found) == len(entries) >= _FEWEST_ENTRIES and known >= _FEWEST_KNOWN else {}


def _body(line: str) -> int:
    """Where the text behind bracketed prefixes begins."""
    return line.rfind("] ", 0, 120) + 2 if line.startswith("[") else 0
