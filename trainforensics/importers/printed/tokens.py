"""What a line of console text is made of: a prefix that a logger or launcher put there, numbers, and words between.

The prefix ends where the record begins; it may tell the time and the rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainforensics.importers.literals import literal
from trainforensics.importers.rows.axes import MAX_STEP

_ISO = r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = rf"(?<!\w){_MONTH} [ \d]\d \d{{2}}:\d{{2}}:\d{{2}}(?:\.\d+)?"
_NO_YEAR = (
    r"(?:(?<![\d/])\d{2}/\d{2}(?:/\d{4}|/\d{2})?|(?<=\b[IWEF])\d{4}) \d{2}:\d{2}:\d{2}(?:[.,]\d+)?"  # or last; glog
)
TIME = rf"(?:{_ISO}|{_SYSLOG}|{_NO_YEAR})"
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NO_NUMBER = r"1\.#(?:[QS]NAN|IND|INF)0*|(?i:nan|inf(?:inity)?)(?:\((?:ind|snan)\))?"
MISSING = r"(?:[Nn]one|null|NULL|undefined|N/?A|n/a)"
NUMBER = rf"[-+]?(?:{_NO_NUMBER}|{_DIGITS})"
# Counts are printed with these ("1.2B tokens"); other units are part of the text around the number.
COUNT_SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_COUNTED = r"(?:epoch|step|iter(?:ation)?|batch|minibatch)(?:s|es)?"  # "1epoch", "101-200batch"
_UNIT = rf"%|{_COUNTED}|(?:[KMGT]i?B|ms|us|µs|ns|sec|s|min|m|h|d|z|x|it|tok|tokens|[KMGTP]?FLOPS?|[KMG])(?:/[A-Za-z]+)*"
_WRAPPED = r"(?:torch\.|tf\.)?[tT]ensor|array|(?:np|numpy)\.\w+|(?:jnp\.|jax\.)?(?:Device)?Array"

_VALUE = rf"(?<![\w.@#])(?<![\w%)]-)(?<!\bof )(?<!\bor ){NUMBER}"  # "number of nan iterations"

# "39 minutes and 2.1 seconds"
IN_WORDS = r"\d+ (?:day|hour|minute)s?(?:,? (?:and )?[\d.]+ (?:hour|minute|second)s?)+"
TOKEN = re.compile(
    rf"(?P<time>(?<![\d.]){TIME})"
    r"|(?P<duration>(?<![\w.])(?:(?:\d+ days?,? )?\d+:\d{2}(?::\d{2}(?:\.\d+)?)?(?![\d:])"
    rf"|{IN_WORDS}|(?:\d+d ?)?(?:\d+h ?\d+m|\d+m ?(?=\d+(?:\.\d+)?s))(?: ?\d+(?:\.\d+)?s)?(?!\w)))"
    r"|(?P<share>(?<![\w./@#-])\d+(?:\s*/\s*| of )\d+(?![\w./]))"
    rf"|(?P<range>(?<![\w.@#/-])(?:\d+-(?=\d+{_COUNTED}\b)|(?<=\[)\d+-(?=\d+\]))(?P<last>\d+))"
    rf"|(?P<wrap>(?<![\w.])(?:{_WRAPPED})\(\s*\[?\s*(?P<inner>{NUMBER})[^()]*(?:\(\)[^()]*)?\))"
    rf"|(?P<number>{_VALUE})(?P<unit>[kKMGBT](?![\w/])|(?:{_UNIT})(?![\w]))?(?![\w.]*\w)"
    rf"|(?P<none>(?:(?<=[:=] )|(?<=[:=])){MISSING}\b)"
)

LARGEST_COUNT = int(MAX_STEP)
_DIGITS_OF_LARGEST = len(str(LARGEST_COUNT))

_LEVEL = r"(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTICE|TRACE)"
_IN_BRACKETS = (
    r"[^\]\[\d]*",
    rf"{_LEVEL}\b[^\]\[]*",
    rf"[^\]\[]*{TIME}[^\]\[]*",
    r"\d\d?[/-]\d\d?[ T][^\]\[]*",
    r"\d\d?[./-]\d\d?[./-]\d\d(?:\d\d)?[ T|,_-]+\d\d:\d\d[^\]\[]*",  # "03.24.23|09:59:35"
    r"\d\d:\d\d:\d\d[^\]\[]*",
    r"[IWEDC] \d{6} \d\d:\d\d:\d\d[^\]\[]*",  # Tornado, logzero
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{_MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}",  # ctime
    rf"{_MONTH} [ \d]?\d, \d\d:\d\d:\d\d",
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
_PREFIXES = (
    rf"\[\s*(?:{'|'.join(_IN_BRACKETS)})\s*\](?:<std(?:out|err)>)?:?",
    rf"{TIME} [\w.-]+ (?:kernel|(?!epoch|step|iter|batch)[\w./-]+\[\d+\]):(?=\s)",  # syslog: host and program
    rf"{TIME}\s*(?:[|,-](?=\s))?",
    r"\d\d/\d\d(?:/\d{4})? \d\d:\d\d:\d\d",
    r"\d{4}-\d\d-\d\d[-_]\d\d[-:]\d\d(?:[-:]\d\d)?:?(?=\s)",
    r"\d\d:\d\d:\d\d(?:[.,]\d+)?:(?=\s)",
    rf"\d\d:\d\d:\d\d[.,]\d{{3}} \[[^\]\[]*\] {_LEVEL}\s+[\w.$]+ -(?=\s)",  # logback
    r"\d\d-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}\s*(?:-(?=\s))?",
    r"[IWEF]\d{4}(?: \d\d:\d\d:\d\d[\d.]*\s+\d+)? [\w./-]+:\d+\]",  # glog
    r"\d+\.\ds\t\d+\t",  # Kaggle's log of a notebook: seconds, and the number of the line
    r"\([\w./]+\.py:? \d+\):?",
    r"\([\w./]+:\d+\)",
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
    rf"(?!(?:{_COUNTED}|train\w*|val\w*|test\w*|eval\w*|dev):)[a-z_]\w*:(?=\s+{_COUNTED}\s*[:=#]?\s*\d)",
)
_PREFIX = re.compile(rf"(?:\s*(?:{'|'.join(_PREFIXES)}))+", re.IGNORECASE)
_RANK = re.compile(
    r"\[(?:[\w.-]+:\d+, |global_?)?rank[ _:=]*(\d+)|\[default(\d+)\]|^\s*(\d{1,5}):\s|\[\d+,(\d+)\]<|\bhost:(\d+)"
    rf"|\s-\s+(\d+) - [\w.]+ - (?:[\w.]+:\d+ - )?{_LEVEL} ::"
    rf"|^\s*rank[ _=:]*(\d+)|\s[\w.-]+:(\d+)\s+[\w.]+:\d+\s+{_LEVEL}",
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


def number_of(text: str) -> float:
    """The value of a number as printed, with thousands separators or a count suffix; NaN for one that is missing.

    Raises ValueError for what is no number.
    """
    if (word := literal(text)) is not None:
        return word[0]
    plain, scale = text.replace(",", ""), 1.0
    if plain[-1:] in COUNT_SUFFIXES and plain[-2:-1].isdigit():
        scale, plain = COUNT_SUFFIXES[plain[-1]], plain[:-1]
    return float(plain) * scale


def whole_number(text: str | None) -> int:
    """A count as printed, 0 for what is none; beyond the largest it is that one."""
    if text and len(text) < _DIGITS_OF_LARGEST and text.isdecimal():
        return int(text)
    try:
        count = int(number_of(text or "0"))
    except OverflowError:
        return LARGEST_COUNT
    except ValueError:
        return 0
    return max(-LARGEST_COUNT, min(count, LARGEST_COUNT))


def count_of(text: str | None) -> int:
    """A count as printed, 0 for what is none. Raises ValueError for one that no step can be."""
    if text and len(text) < _DIGITS_OF_LARGEST and text.isdecimal():  # as most are
        return int(text)
    count = whole_number(text)
    if not -LARGEST_COUNT < count < LARGEST_COUNT:
        raise ValueError(f"{(text or '')[:20]} is beyond what can be counted")
    return count
