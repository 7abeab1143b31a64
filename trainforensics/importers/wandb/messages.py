"""The fields of W&B's records that are of use here, as message classes of our own.

Importing `wandb.proto` costs more than reading a small run. Field numbers are those of wandb_internal.proto; what is
not declared is skipped by the parser. Text is declared as bytes: numbers are parsed from it as they stand, and bytes
that are not UTF-8 do not spoil a record.
"""

from __future__ import annotations

from functools import cache
from typing import Any

# Items of rows are left as bytes: wandb_items reads them faster than the message class would.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Timestamp": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    "Items": {"update": (1, "bytes*")},
    "Step": {"num": (1, "int64")},
    "History": {"item": (1, "bytes*"), "step": (2, "Step")},
    "Output": {"output_type": (1, "int32"), "timestamp": (2, "Timestamp"), "line": (3, "bytes")},
    "Stats": {"timestamp": (2, "Timestamp"), "item": (3, "bytes*")},
    "Alert": {"title": (1, "bytes"), "text": (2, "bytes"), "level": (3, "bytes")},
    "Metric": {"name": (1, "bytes"), "glob_name": (2, "bytes"), "step_metric": (4, "bytes")},
    "BranchPoint": {"run": (1, "bytes"), "value": (2, "double"), "metric": (3, "bytes")},
    "Run": {
        "run_id": (1, "bytes"),
        "entity": (2, "bytes"),
        "project": (3, "bytes"),
        "config": (4, "Items"),
        "run_group": (6, "bytes"),
        "job_type": (7, "bytes"),
        "display_name": (8, "bytes"),
        "notes": (9, "bytes"),
        "tags": (10, "bytes*"),
        "sweep_id": (12, "bytes"),
        "host": (13, "bytes"),
        "starting_step": (14, "int64"),
        "start_time": (17, "Timestamp"),
        "resumed": (18, "bool"),
        "forked": (22, "bool"),
        "branch_point": (23, "BranchPoint"),
    },
    "Exit": {"exit_code": (1, "int32"), "runtime": (2, "int32")},
    "Empty": {},
}
# The record's oneof.
_RECORD = {
    "history": (2, "History"),
    "summary": (3, "Items"),
    "output": (4, "Output"),
    "config": (5, "Items"),
    "stats": (7, "Stats"),
    "alert": (10, "Alert"),
    "metric": (12, "Metric"),
    "output_raw": (13, "Output"),
    "run": (17, "Run"),
    "exit": (18, "Exit"),
    "preempting": (23, "Empty"),
}


@cache
def message_class(name: str) -> Any:
    """The protobuf class of a message: "Record", or one of its parts."""
    from google.protobuf import message_factory  # noqa: PLC0415  (only where a .wandb file is read)

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"trainforensics.{name}"))


@cache
def _pool() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    file = FileDescriptorProto(name="trainforensics/wandb.proto", package="trainforensics", syntax="proto3")
    for name, parts in (*_MESSAGES.items(), ("Record", _RECORD)):
        message = file.message_type.add(name=name)
        if name == "Record":
            message.oneof_decl.add(name="what")
        for field_name, (number, kind) in parts.items():
            field = message.field.add(name=field_name, number=number, **_type(kind))
            if name == "Record":
                field.oneof_index = 0
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def _type(kind: str) -> dict[str, Any]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field  # noqa: PLC0415

    label = Field.LABEL_REPEATED if kind.endswith("*") else Field.LABEL_OPTIONAL
    base = kind.removesuffix("*")
    if base[0].isupper():
        return {"label": label, "type": Field.TYPE_MESSAGE, "type_name": f".trainforensics.{base}"}
    return {"label": label, "type": getattr(Field, f"TYPE_{base.upper()}")}
