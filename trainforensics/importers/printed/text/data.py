"""Names of shards, files and documents in a line: `shard py-00017.bin`, `doc_ids=[5, 7]`."""

from __future__ import annotations

import re

VALUE = r"[^\s,;|'\"{}()\[\]]+"
NAMED_DATA = re.compile(
    r"(?<![\w/.-])(?P<name>(?:data_?)?shard(?:_?(?:id|idx|index|name|file|path))?|data_?file|file(?:_?name)?|tar(?:file)?"
    r"|doc(?:ument)?_?ids?|sample_?ids?)"
    r"(?:['\"]?\s?[:=]\s?|\s(?=\S*\d))['\"]?(?P<value>\[[^\]]*\]|"
    rf"{VALUE})",
    re.IGNORECASE,
)
