"""The list of the runs in a store: written last, so that what it names is complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainforensics.store import schema


def write_manifest(store: Path, runs: Mapping[str, str]) -> None:
    """List the store's runs; written to a temporary name and renamed, so that a store is complete or not there."""
    temporary = store / f"{schema.MANIFEST}.tmp"
    document = {"schema": schema.STORE_SCHEMA, "runs": runs}
    text = json.dumps(document, ensure_ascii=False, indent=1)
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    temporary.replace(store / schema.MANIFEST)


def read_manifest(store: Path) -> dict[str, str]:
    """Run name -> folder, of the runs that are there; empty where there is no readable manifest."""
    try:
        document = json.loads((store / schema.MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("schema") != schema.STORE_SCHEMA:
        return {}
    runs = document.get("runs")
    named = runs if isinstance(runs, dict) else {}
    return {
        name: folder
        for name, folder in named.items()
        if folder == schema.encode(name) and (store / folder / schema.RUN_FILE).is_file()
    }


def drop_runs(store: Path, names: Iterable[str]) -> None:
    """Take runs out of the store; the manifest first, so that it never names what is gone."""
    runs = read_manifest(store)
    gone = {name: runs.pop(name) for name in list(names) if name in runs}
    if not gone:
        return
    write_manifest(store, runs)
    for folder in gone.values():
        shutil.rmtree(store / folder, ignore_errors=True)
