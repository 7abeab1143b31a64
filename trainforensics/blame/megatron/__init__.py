"""Batches of Megatron-style data sets, from their cached index maps or from maps drawn anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainforensics.blame.manifest import Manifest
    from trainforensics.signals import Signals


def index_maps(signals: Signals) -> Manifest | str | None:
    """The batches that the index maps give, None where nothing speaks of any, else why there are none."""
    from trainforensics.blame.megatron.choose import find  # noqa: PLC0415  (few runs need it)

    return find(signals)
