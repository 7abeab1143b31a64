"""Batches of Megatron-style data sets, from their cached index maps or from maps drawn anew."""

from trainforensics.blame.megatron.choose import index_maps

__all__ = ["index_maps"]
