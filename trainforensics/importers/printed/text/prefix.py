"""What a logger or launcher puts before a line: it ends where the record begins, and may tell the time and the rank."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainforensics.importers.printed.text.tokens import COUNTED, MONTH, TIME

_LEVEL = r"(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTICE|TRACE)"
_IN_BRACKETS = (
    r"[^\]\[\d]*",
    rf"{_LEVEL}\b[^\]\[]*",
    rf"[^\]\[]*{TIME}[^\]\[]*",
    r"\d\d?[/-]\d\d?[ T][^\]\[]*",
    r"\d\d?[./-]\d\d?[./-]\d\d(?:\d\d)?[ T|,_-]+\d\d:\d\d[^\]\[]*",  # "03.24.23|09:59:35"
    r"\d\d:\d\d:\d\d[^\]\[]*",
    r"[IWEDC] \d{6} \d\d:\d\d:\d\d[^\]\[]*",  # Tornado, logzero
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}",  # ctime
    rf"{MONTH} [ \d]?\d, \d\d:\d\d:\d\d",
    r"\d{4}-\d\d-\d\d[^\]\[]*",
    r"[^\]\[\s]*/[^\]\[\s]*:\d+",
    r"[^\]\[]*\.(?:py|cc|cpp|h|cu)\b[^\]\[]*",
    r"(?:global[_ ])?rank[_ :]*\d+[^\]\[]*",
    r"(?:default|gpu[_ :]*|cuda:)\d+",
    r"\d+(?=\]:)|\d+,\d+",
    # host, before the time
    r"(?!\s*(?:step|iter|epoch|batch|train|val|test))[A-Za-z][\w.-]*(?=\]\s+\d{4}-\d\d-\d\d[ T])",
    # host and rank, or module, line and rank
    r"(?!\s*(?:global_)?(?:step|iter|epoch|batch))[\w.-]*[a-z][\w.-]*:\d+(?:/\d+)?(?:, rank=\d+)?",
)
# a rank before what is trained, on a line that counts for itself: "[1] [train], epoch: 0/50, iter: 9/400"
_BARE_RANK = r"\[\d{1,3}\](?=\s+\[(?:train|valid|val|eval|test)\w*\],?\s.{0,40}\b(?:epoch|iter|step)\w*\W{0,3}\d)"
_PREFIXES = (
    _BARE_RANK,
    rf"\[\s*(?:{'|'.join(_IN_BRACKETS)})\s*\](?:<std(?:out|err)>)?:?",
    rf"{TIME} [\w.-]+ (?:kernel|(?!epoch|step|iter|batch)[\w./-]+\[\d+\]):(?=\s)",  # syslog: host and program
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?{TIME}\s*(?:[|,-](?=\s))?",
    r"\d\d/\d\d(?:/\d{4})? \d\d:\d\d:\d\d",
    r"\d{4}-\d\d-\d\d[-_]\d\d[-:]\d\d(?:[-:]\d\d)?:?(?=\s)",
    r"\d\d:\d\d:\d\d(?:[.,]\d+)?:(?=\s)",
    rf"\d\d:\d\d:\d\d[.,]\d{{3}} \[[^\]\[]*\] {_LEVEL}\s+[\w.$]+ -(?=\s)",  # logback
    r"\d\d-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}\s*(?:-(?=\s))?",
    r"[IWEF]\d{4}(?: \d\d:\d\d:\d\d[\d.]*\s+\d+)? [\w./-]+:\d+\]",  # glog
    r"\d+\.\ds\t\d+\t",  # Kaggle's log of a notebook: seconds, and the number of the line
    r"\([\w./]+\.py:? \d+\):?",
    r"\([\w./]+:\d+\)",
    r"[\w./-]+\.py\[line:\d+\](?=\s)",
    r"[\w./-]+\.(?:py|cc|cpp):\d+:?(?=\s)",
    r":?\s*[IWEF] [\w./]+:\d+\]",
    r"(?:\w+(?:\.\w+)+|\w+\$):\d+\s+-(?=\s)",  # log4j's class and line
    r"[\w.]+\[[\w./]+:\d+\](?:\s+-(?=\s))?",
    r"\([^()]*\bpid=\d+[^()]*\)",  # Ray
    r"\d{1,5}:(?= (?!\s*[-+\d]))",  # srun --label
    r"(?:(?:worker|node|host|machine)[\w.-]*\d|\d{1,3}(?:\.\d{1,3}){3}):(?=\s)",  # pdsh: the host
    rf"(?:-\s+)?\d+ - [\w.]+ - (?:[\w.]+:\d+ - )?{_LEVEL} ::(?=\s)",  # Levanter, behind the time: the process
    rf"(?:\|\s*|-\s*)?{_LEVEL}\b"
    r"(?:\s*\|\s*[\w.<>]+(?::[\w<>]+:\d+)?\s*(?:\||-)|\s+-\s+[\w.]+\s+-(?=\s)|:[\w.-]+:(?!\s+[-+\d.])|\s+[a-z_]\w*(?:\.\w+)+:(?=\s)"
    r"|[ :-]*(?:\[[\w.:]+\])?)[:|-]*",
    rf"[\w.-]+\t{_LEVEL}(?=\t)",  # behind the time, between tabs
    rf"[|-]?\s*[\w.]+\s+(?:\[?[\w.-]*\]?\s*)?[|-]\s+(?={_LEVEL}\b)",
    rf"(?:(?:host|rank):\d+\s+[\w.:]+|[\w.-]+:\d+\s+[\w.]+:\d+)\s+{_LEVEL}",
    rf"[\w.]+\s+{_LEVEL}:(?=\s)",
    rf"P\d+ {_LEVEL}(?=\s)",  # behind the time, the number of the process
    r"rank[ _=]?\d+[\]:,|]+(?=\s)",
    rf"\[\s{_LEVEL}:(?=\s)",  # Julia
    r"[|:>-]+(?=\s)",
    # a logger's name
    rf"(?!(?:{COUNTED}|train\w*|val\w*|test\w*|eval\w*|dev):)[a-z_]\w{{0,63}}:(?=\s+{COUNTED}\s*[:=#]?\s*\d)",
)
_PREFIX = re.compile(rf"(?:\s*(?:{'|'.join(_PREFIXES)}))+", re.IGNORECASE)
_RANK = re.compile(
    r"\[(?:[\w.-]+:\d+, |global_?)?rank[ _:=]*(\d+)|\[default(\d+)\]|^\s*(\d{1,5}):\s|\[\d+,(\d+)\]<|\bhost:(\d+)"
    rf"|\s-\s+(\d+) - [\w.]+ - (?:[\w.]+:\d+ - )?{_LEVEL} ::"
    rf"|^\s*\[(\d{{1,3}})\](?!:)|^\s*rank[ _=:]*(\d+)|\s[\w.-]+:(\d+)\s+[\w.]+:\d+\s+{_LEVEL}",
    re.IGNORECASE,
)

_HOST = re.compile(r"\s*(?:worker|node|host|machine)[\w.-]*?(\d+):", re.IGNORECASE)  # where no rank is said


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where the record begins, and the spans of the time and the rank before it."""

    end: int
    time: tuple[int, int] | None
    rank: tuple[int, int] | None


_WHEN = re.compile(TIME)


def prefix_of(line: str) -> Prefix:
    """What stands before the record of a line."""
    found = _PREFIX.match(line)
    end = found.end() if found else 0
    time = _WHEN.search(line, 0, end) if end else None
    rank = (_RANK.search(line, 0, end) or _HOST.match(line, 0, end)) if end else None
    return Prefix(end, time.span() if time else None, rank.span(rank.lastindex or 0) if rank else None)
