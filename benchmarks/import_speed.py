"""How fast logs are read, against the readers people use: `python benchmarks/import_speed.py [--scale 0.1]`.

Every row of the table is measured in this one process, on files made in a temporary folder. Ratios, not seconds, are
what carries over to another machine; the readers take turns `--repeat` times, and the fastest run of each counts.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from trainforensics.discovery import discover
from trainforensics.importers import tensorboard, wandb
from trainforensics.importers.base import Points, Source
from trainforensics.store.reader import open_run
from trainforensics.store.writer import import_candidates

TAGS = tuple(f"train/metric_{i}" for i in range(10))


@dataclass(frozen=True)
class Row:
    """One reader on one file."""

    reader: str
    seconds: float
    points: int


def measure(readers: dict[str, Callable[[], int]], repeat: int) -> list[Row]:
    """Run the readers in turn, `repeat` times, and keep each one's fastest run: what disturbs one disturbs all."""
    best = {name: Row(name, math.inf, 0) for name in readers}
    for _ in range(repeat):
        for name, read in readers.items():
            start = time.perf_counter()
            points = read()
            row = Row(name, time.perf_counter() - start, points)
            best[name] = min(best[name], row, key=lambda row: row.seconds)
    return list(best.values())


def own(read: Callable[[Source], Iterator[Any]], path: Path) -> int:
    """Points that an importer of ours yields."""
    return sum(len(record.value) for record in read(Source(path, path.name)) if isinstance(record, Points))


# --- TensorBoard ---------------------------------------------------------------------------------------------------


def write_event_file(path: Path, points: int) -> None:
    """A file as SummaryWriter.add_scalar writes it: one event a point, tags in turn."""
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415

    noise = random.Random(1)
    with path.open("wb") as stream:
        stream.write(_framed(Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString()))
        for number in range(points):
            step = number // len(TAGS)
            event = Event(wall_time=1.7e9 + step / 7, step=step)
            event.summary.value.add(tag=TAGS[number % len(TAGS)], simple_value=noise.random())
            stream.write(_framed(event.SerializeToString()))


def _framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + _masked(length) + payload + _masked(payload)


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def with_tbparse(path: Path) -> int:
    """tbparse, into a pandas table."""
    from tbparse import SummaryReader  # noqa: PLC0415

    return len(SummaryReader(str(path)).scalars)


def with_data_server(path: Path, points: int) -> int:
    """TensorBoard's Rust server: started, loaded, and every scalar fetched through TensorBoard's own client."""
    from tensorboard.context import RequestContext  # noqa: PLC0415
    from tensorboard.data import grpc_provider, server_ingester  # noqa: PLC0415
    from tensorboard.util import grpc_util  # noqa: PLC0415

    port_file = path.parent.parent / "port"
    port_file.unlink(missing_ok=True)
    command = [server_ingester.get_server_binary().path, f"--logdir={path.parent}", "--reload=once", "--port=0"]
    command += [f"--port-file={port_file}", "--samples-per-plugin=scalars=all", "--die-after-stdin"]
    about = {"ctx": RequestContext(), "experiment_id": "", "plugin_name": "scalars"}
    last = points // len(TAGS) - 1
    with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
        while not (port_file.exists() and port_file.read_text().endswith("\n")):
            time.sleep(0.001)
        address = f"localhost:{port_file.read_text().strip()}"
        stub = server_ingester._make_stub(address, grpc_util.ChannelCredsType.LOCAL)
        provider = grpc_provider.GrpcDataProvider(address, stub)
        while True:
            series = [one for tags in provider.list_scalars(**about).values() for one in tags.values()]
            if len(series) == len(TAGS) and all(one.max_step == last for one in series):
                break
            time.sleep(0.005)
        found = provider.read_scalars(**about, downsample=points)
        server.communicate()  # closing its standard input ends it
    return sum(len(data) for tags in found.values() for data in tags.values())


def with_event_file_loader(path: Path) -> int:
    """TensorBoard's Python reader, events decoded one by one."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # noqa: PLC0415

    return sum(len(event.summary.value) for event in LegacyEventFileLoader(str(path)).Load())


def tensorboard_rows(folder: Path, points: int, repeat: int) -> list[Row]:
    """The readers of an event file."""
    path = folder / "run" / "events.out.tfevents.1700000000.host.1.0"
    path.parent.mkdir()
    write_event_file(path, points)
    readers = {
        "trainforensics": lambda: own(tensorboard.read, path),
        "trainforensics, into the Parquet store": lambda: into_store(path),
        "TensorBoard data server": lambda: with_data_server(path, points),
        "TensorBoard EventFileLoader": lambda: with_event_file_loader(path),
        "tbparse": lambda: with_tbparse(path),
    }
    return measure(readers, repeat)


# --- W&B -----------------------------------------------------------------------------------------------------------


def write_wandb_file(path: Path, rows: int) -> None:
    """A file as wandb 0.31 writes it offline: each history row behind the summary update that repeats it."""
    from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415

    noise = random.Random(1)
    data = bytearray(b":W&B\xe1\xbe\x00")
    for step in range(rows):
        values = {tag: noise.random() for tag in TAGS[:7]}
        values |= {"_step": step, "_timestamp": 1.7e9 + step, "_runtime": step / 7}
        history, summary = Record(num=2 * step + 1), Record(num=2 * step)
        for name, value in values.items():
            history.history.item.add(nested_key=[name], value_json=json.dumps(value))
            summary.summary.update.add(nested_key=[name], value_json=json.dumps(value))
        history.history.step.num = step
        _append(data, summary.SerializeToString())
        _append(data, history.SerializeToString())
    path.write_bytes(data)


def _append(data: bytearray, payload: bytes) -> None:
    first = True
    while first or payload:
        left = 32768 - len(data) % 32768
        if left < 7:
            data += bytes(left)
            left = 32768
        part, payload = payload[: left - 7], payload[left - 7 :]
        body = bytes([1 if first and not payload else 2 if first else 3 if payload else 4]) + part
        data += struct.pack("<IH", zlib.crc32(body), len(part)) + body
        first = False


def with_protobuf_loop(path: Path) -> int:
    """The plain way: chunks, W&B's own messages, one value after the other."""
    from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415

    series: dict[str, list[tuple[int, float]]] = {}
    data, at, parts = path.read_bytes(), 7, []
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        checksum, size, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + 6 : at + 7 + size]
        at += 7 + size
        if zlib.crc32(body) != checksum:
            raise ValueError(f"checksum at byte {at}")
        parts.append(body[1:])
        if kind in {1, 4}:
            record = Record.FromString(b"".join(parts))
            parts = []
            if record.WhichOneof("record_type") == "history":
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                for name, value in row.items():
                    if not name.startswith("_"):
                        series.setdefault(name, []).append((row["_step"], value))
    return sum(map(len, series.values()))


def wandb_rows(folder: Path, points: int, repeat: int) -> list[Row]:
    """The readers of a `.wandb` file."""
    path = folder / "run-bench.wandb"
    write_wandb_file(path, points // 7)
    readers = {
        "trainforensics": lambda: own(wandb.read, path),
        "loop over wandb.proto records": lambda: with_protobuf_loop(path),
    }
    return measure(readers, repeat)


# --- JSON lines ----------------------------------------------------------------------------------------------------


def write_json_lines(path: Path, rows: int, nan_share: float) -> None:
    """Five numbers a row; in a share of the rows the loss is the bare literal NaN."""
    noise = random.Random(1)
    with path.open("w") as stream:
        for step in range(rows):
            loss = math.nan if noise.random() < nan_share else 4 * math.exp(-step / rows) + noise.gauss(0, 0.02)
            row = {"step": step, "loss": loss, "grad_norm": noise.random(), "lr": 1e-4, "tokens": 4096 * step}
            stream.write(json.dumps(row) + "\n")


def into_store(path: Path) -> int:
    """Numbers of a log that discovery, import and store write as Parquet; the store is left beside the log."""
    store = Path(tempfile.mkdtemp(dir=path.parent, prefix=".store-"))
    imported = import_candidates(discover([path]).candidates, store, {})
    return sum(source.points for source in open_run(store, imported.runs[0]).sources)


def with_polars(path: Path, *, write: bool) -> int:
    """The bare minimum: polars reads, and perhaps writes Parquet."""
    import polars as pl  # noqa: PLC0415

    frame = pl.read_ndjson(path)
    if write:
        frame.write_parquet(path.with_suffix(".parquet"))
    return frame.height * (frame.width - 1)


def json_rows(folder: Path, rows: int, repeat: int) -> list[Row]:
    """The readers of JSON lines; polars refuses the file with NaN, and reads the one without."""
    plain, with_nan = folder / "plain.jsonl", folder / "nan.jsonl"
    write_json_lines(plain, rows, 0.0)
    write_json_lines(with_nan, rows, 0.01)
    readers = {
        "trainforensics": lambda: into_store(plain),
        "trainforensics, NaN in 1 % of the lines": lambda: into_store(with_nan),
        "polars.read_ndjson": lambda: with_polars(plain, write=False),
        "polars.read_ndjson and write_parquet": lambda: with_polars(plain, write=True),
    }
    return measure(readers, repeat)


def json_ratios(rows: list[Row]) -> str:
    """What reading into the store costs, in times of what polars takes."""
    plain, with_nan, read, written = (row.seconds for row in rows)
    lines = ["| times of | trainforensics | with NaN |", "|---|--:|--:|"]
    lines += [
        f"| {name} | {plain / bare:.2f}x | {with_nan / bare:.2f}x |"
        for name, bare in (("polars.read_ndjson", read), ("polars.read_ndjson and write_parquet", written))
    ]
    return "\n".join(lines) + "\n"


# --- the table -----------------------------------------------------------------------------------------------------


def table(title: str, rows: list[Row]) -> str:
    """A Markdown table; the last column compares with the first row's time."""
    lines = [
        f"### {title}",
        "",
        "| reader | points | seconds | points/s | times the first |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        rate, ratio = row.points / row.seconds, row.seconds / rows[0].seconds
        lines.append(f"| {row.reader} | {row.points:,} | {row.seconds:.2f} | {rate:,.0f} | {ratio:.1f}x |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    points = int(500_000 * args.scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(
            table(f"TensorBoard scalars: {len(TAGS)} tags, checksums on", tensorboard_rows(folder, points, args.repeat))
        )
        print(table("W&B offline: 7 metrics a row", wandb_rows(folder, points // 2, args.repeat)))
        title = "JSON lines into Parquet: 5 numbers a row"
        rows = json_rows(folder, int(200_000 * args.scale), 5 * args.repeat)  # short, so that little disturbs much
        print(table(title, rows))
        print(json_ratios(rows))


if __name__ == "__main__":
    main()
