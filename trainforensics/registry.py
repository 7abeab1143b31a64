"""Finds importers and detectors: ours and those of installed packages, by entry point.

A package lists its modules under one entry point per group (`trainforensics.importers`,
`trainforensics.detectors`), as a tuple of module names. A module that fails to import is reported, never fatal.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A registered module that could not be imported."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Registered:
    """The modules of one group, and those that failed."""

    modules: tuple[ModuleType, ...]
    broken: tuple[BrokenPlugin, ...]


@cache
def load(group: str, builtin: str, offers: tuple[str, ...] = ()) -> Registered:
    """Import every module registered in `group`; `builtin` ("package:ATTRIBUTE") needs no installed metadata.

    A module that lacks one of the names in `offers` is broken.
    """
    points = {(point.value, point.name): point for point in entry_points(group=group)}
    points.setdefault((builtin, "builtin"), EntryPoint("builtin", builtin, group))
    modules: dict[str, ModuleType] = {}
    broken: list[BrokenPlugin] = []
    for point in sorted(points.values(), key=lambda p: (p.value != builtin, p.name)):
        try:
            names = tuple(point.load())
        except Exception as error:
            broken.append(BrokenPlugin(point.name, f"{type(error).__name__}: {error}"))
            continue
        for name in names:
            try:
                module = importlib.import_module(name)
                for offered in offers:
                    getattr(module, offered)
                modules.setdefault(name, module)
            except Exception as error:
                broken.append(BrokenPlugin(name, f"{type(error).__name__}: {error}"))
    return Registered(tuple(modules.values()), tuple(broken))


def importers() -> Registered:
    """Every importer module."""
    return load("trainforensics.importers", "trainforensics.importers:MODULES", ("FORMAT", "sniff", "read"))


def detectors() -> Registered:
    """Every detector module."""
    return load("trainforensics.detectors", "trainforensics.detectors:MODULES", ("META", "detect"))
