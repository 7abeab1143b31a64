"""Columns that say which data a step used, under their canonical names: step, rank, batch_id, shard, doc, domain ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import Batches
from trainforensics.importers.rows.axes import choose, is_step_name
from trainforensics.importers.rows.block import ABSENT, Block
from trainforensics.importers.rows.cells import columns_of_frame

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from trainforensics.importers.rows.axes import StepAxis

# Canonical column -> names it goes by, surest first. Every column that matches none is kept under its own name.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "shard": (
        "shard", "shard_id", "shard_idx", "shard_index", "shard_name", "data_shard", "data_shard_id",
        "shard_path", "shard_file", "shards", "file", "filename", "file_name", "file_path", "filepath",
        "file_id", "file_idx", "file_index", "data_file", "source_file", "tar", "tarfile", "__url__", "url",
        "bin_file", "parquet_file", "path", "chunk_id", "partition",
    ),
    "doc": (
        "doc", "doc_ids", "doc_id", "docs", "document", "documents", "document_id", "document_ids",
        "sample_ids", "sample_id", "samples", "sample", "sample_indices", "sample_idx", "sample_index",
        "sample_idxs", "example_ids", "example_id", "examples", "example_idx", "indices", "idxs", "idx",
        "index", "indexes", "ids", "id", "uids", "uid", "uuid", "uuids", "keys", "__key__", "item_ids",
        "row_ids", "row_id", "sequence_ids", "sequence_id", "seq_ids", "record_id", "record_ids",
        "data_idx", "data_indices", "dataset_indices", "dataset_index", "global_indices", "instance_ids",
        "prompt_ids", "prompt_id",
    ),
    "domain": (
        "domain", "domains", "source", "sources", "data_source", "source_name", "dataset", "dataset_name",
        "subset", "corpus", "dataset_id", "category", "topic",
    ),
    "language": (
        "language", "lang", "languages", "lang_id", "language_id", "locale",
    ),
    "rank": (
        "rank", "global_rank", "dp_rank", "data_parallel_rank", "worker_rank", "process_index", "rank_id",
        "local_rank",
    ),
    "batch_id": (
        "batch_id", "batch", "batch_idx", "batch_index", "batch_num", "global_batch", "global_batch_id",
        "micro_batch", "micro_batch_id", "microbatch", "minibatch",
    ),
    "seq_len": (
        "seq_len", "sequence_length", "seqlen", "seq_length", "mean_seq_len", "avg_seq_len", "length",
        "lengths", "doc_len", "doc_length", "mean_len", "n_tokens_per_seq", "num_chars",
    ),
    "tokens": (
        "tokens", "n_tokens", "num_tokens", "token_count", "ntokens", "tokens_in_batch", "batch_tokens",
    ),
    "loss": (
        "loss", "batch_loss", "doc_loss", "sample_loss", "micro_loss", "per_batch_loss", "mean_loss",
        "train_loss",
    ),
}  # fmt: skip
_TEXT = ("batch_id", "shard", "domain", "language")
_NUMBERS = ("seq_len", "tokens", "loss")
# Names that mean data only where nothing surer is there, or that a metrics log has as well.
_VAGUE = frozenset({
    "category", "dataset", "document", "examples", "file_index", "id", "idx", "index", "keys", "partition",
    "path", "sample", "samples", "source", "sources", "topic", "uid", "url", "uuid",
})  # fmt: skip
_SPLITTERS = (";", "|", ",", " ")


def plain(name: str) -> str:
    """A column name without case, folder and separators: "Data/Shard-ID" -> "shard_id"."""
    last = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()).rsplit("/", 1)[-1]
    return re.sub(r"[^a-z0-9_]+", "_", last.lower())


def canonical(names: Iterable[str]) -> dict[str, str]:
    """Which of the columns carry canonical meaning: own name -> canonical name, one column each."""
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    found: dict[str, str] = {}
    for target, synonyms in SYNONYMS.items():
        known = [by_plain[synonym] for synonym in synonyms if by_plain.get(synonym, "") not in {"", *found}]
        if known:
            found[known[0]] = target
    return found


@lru_cache(4096)
def names_data(name: str) -> bool:
    """Whether a column of this name may say which data a step used."""
    return bool(canonical((name,)))


def is_provenance(names: Sequence[str]) -> bool:
    """Whether columns name shards or documents (and not only something that vaguely may)."""
    return any(target in {"shard", "doc"} and plain(name) not in _VAGUE for name, target in canonical(names).items())


def step_axis(frame: pl.DataFrame) -> StepAxis | None:
    """How the step follows from a manifest's columns; None where it names none."""
    block = _step_block(frame)
    if not block.columns:
        return None
    axis = choose(block, None, 1)
    return axis if axis.kind in {"column", "epoch_iteration"} else None


def _step_block(frame: pl.DataFrame) -> Block:
    import polars as pl  # noqa: PLC0415  (heavy)

    names = [name for name in frame.columns if is_step_name(name)]
    texts = [pl.col(name).cast(pl.Float64, strict=False) for name in names if frame.schema[name] == pl.String]
    columns = dict(columns_of_frame(frame.select(names).with_columns(texts), ABSENT))
    return Block(columns, np.arange(1, frame.height + 1, dtype=np.int64))


def flat_row(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row's fields on one level; of a list of objects, the fields of its first."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        inner = value[0] if isinstance(value, list) and value and isinstance(value[0], Mapping) else value
        if isinstance(inner, Mapping):
            out |= flat_row(inner, f"{prefix}{key}/")
        else:
            out[f"{prefix}{key}"] = value
    return out


def unfolded(frame: pl.DataFrame) -> pl.DataFrame:
    """A manifest with one shard a row: lists of objects and lists of shards unfold into rows, objects into columns.

    Documents that are listed beside the shards, one for each, go with them.
    """
    import polars as pl  # noqa: PLC0415  (heavy)

    for name, kind in list(frame.schema.items()):
        if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
            frame = frame.explode(name, empty_as_null=True)
    while structs := [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]:
        frame = frame.unnest(structs, separator="/")
    targets = {target: name for name, target in canonical(frame.columns).items()}
    shard, doc = targets.get("shard"), targets.get("doc")
    if shard is None or not isinstance(frame.schema[shard], pl.List):
        return frame
    if doc is not None and isinstance(frame.schema[doc], pl.List):
        paired = bool((frame[shard].list.len() == frame[doc].list.len()).all())
        return frame.explode([shard, doc] if paired else [shard], empty_as_null=True)
    return frame.explode(shard, empty_as_null=True)


def manifest_batches(frame: pl.DataFrame, axis: StepAxis | None) -> Batches:
    """The rows of a manifest, every column kept."""
    if axis is None:
        return Batches(_table(frame, None, ""))
    return Batches(_table(frame, axis.steps(_step_block(frame), None), axis.column))


def logged_batches(frame: pl.DataFrame, step: NDArray[np.int64]) -> Iterator[Batches]:
    """What the rows of a metrics log say of their data, if they say anything; metrics are left out."""
    if not is_provenance(frame.columns):
        return
    import polars as pl  # noqa: PLC0415  (heavy)

    named = canonical(frame.columns)
    keys = [name for name, target in named.items() if target in {"shard", "doc"}]
    frame = frame.select(list(named)).with_columns(pl.Series("step", step))
    known = frame.filter(pl.any_horizontal(pl.col(keys).is_not_null()))
    if known.height:
        yield Batches(_table(known.drop("step"), known["step"].to_numpy(), ""))


def _table(frame: pl.DataFrame, step: NDArray[np.int64] | None, step_column: str) -> pa.Table:
    """The rows under canonical names and types: `step`, `rank` int64; `batch_id`, `shard`, `domain`, `language` text;
    `doc` a list of texts; `seq_len`, `tokens`, `loss` float64; every further column as it is."""
    import polars as pl  # noqa: PLC0415  (heavy)

    names = [name for name in frame.columns if name != step_column]
    targets = canonical(names)
    taken = {*targets.values(), "step"}
    out = [] if step is None else [pl.Series("step", step)]
    for name in names:
        target = targets.get(name, "")
        out.append(_typed(frame[name], target).alias(target or (f"{name}_logged" if name in taken else name)))
    return pl.DataFrame(out).to_arrow(compat_level=pl.CompatLevel.oldest())


def _typed(column: pl.Series, target: str) -> pl.Series:
    import polars as pl  # noqa: PLC0415  (heavy)

    if target == "doc":
        return documents(column)
    if target in _TEXT:
        return as_text(column)
    if target == "rank":
        return column.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    if target in _NUMBERS and not isinstance(column.dtype, pl.List):
        return column.cast(pl.Float64, strict=False)
    if column.dtype == pl.String:
        number = column.cast(pl.Float64, strict=False)
        return number if number.null_count() == (column.is_null() | (column == "")).sum() else column
    return column


def as_text(column: pl.Series) -> pl.Series:
    """Ids as text, as they are written: 13 and 13.0 are "13", "00013" stays."""
    import polars as pl  # noqa: PLC0415  (heavy)

    if column.dtype.is_float():
        whole = column.drop_nulls()
        column = column.cast(pl.Int64) if len(whole) and bool((whole == whole.floor()).all()) else column
    if isinstance(column.dtype, pl.List):
        return column.cast(pl.List(pl.String)).list.join(";")
    text = column.cast(pl.String, strict=False).str.strip_chars()
    return text.set(text == "", None)


def documents(column: pl.Series) -> pl.Series:
    """Document ids as lists of text, from lists, JSON lists ("[1, 2]") and joined ids ("1;2;3", "1,2", "1 2")."""
    import polars as pl  # noqa: PLC0415  (heavy)

    if isinstance(column.dtype, pl.List | pl.Array):
        return column.cast(pl.List(pl.String))
    text = as_text(column).str.strip_chars("[]() ")
    sample = text.drop_nulls().head(1000)
    splitter = next((s for s in _SPLITTERS if _splits(sample, s)), "\n")
    if splitter not in (" ", "\n") and bool(text.str.contains(r"[\s\"']").any()):
        text = text.str.replace_all(rf"[\"']*\s*{re.escape(splitter)}\s*[\"']*", splitter).str.strip_chars(" \"'")
    parts = text.str.strip_chars(splitter).str.split(splitter)
    if bool(text.str.contains(splitter * 2, literal=True).any()):
        parts = parts.list.eval(pl.element().filter(pl.element() != ""))
    return parts.alias(column.name)


def _splits(sample: pl.Series, splitter: str) -> bool:
    """Whether cells are joined ids; a blank joins numbers only, since names may hold blanks."""
    joined = sample.filter(sample.str.contains(splitter, literal=True))
    return len(joined) > 0 and (splitter != " " or bool(joined.str.contains(r"^[\d ]+$").all()))
