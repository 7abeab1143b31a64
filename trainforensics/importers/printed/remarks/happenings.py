"""What console text says happened. One table: the kinds of events that a console log can give, and their words.

| kind | what it says |
|---|---|
| `checkpoint-failed` | a checkpoint could not be written, or one cannot be read |
| `overflow` | a gradient overflowed: the update was skipped, the loss scale reduced |
| `update-skipped` | an update was left out, because of a gradient that is not finite or a guard |
| `checkpoint-loaded` | a checkpoint was loaded |
| `restart` | training was resumed or restarted |
| `checkpoint-saved` | a checkpoint was saved |
| `oom`, `nccl-timeout`, `hardware`, `node-lost`, `preemption` | what ended or disturbed the process |
| `missing-loss` | a record lacks the loss that those before it held |
| `exit`, `finish` | the process ended with a code; training came to its planned end |
| `traceback` | an exception ended the program; the text is its last line |
| `error`, `warning` | anything else that the log calls so |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainforensics.importers.base import NO_TIME
from trainforensics.importers.printed.text.numbers import count_of
from trainforensics.importers.printed.text.prefix import prefix_of
from trainforensics.importers.rows.times import is_naive, parse_time
from trainforensics.model import Event

# Kind, words of which one must stand in the text (in lower case) for the pattern to be tried, pattern. The first that
# matches counts. Case counts only where a pattern does not say otherwise.
_KINDS = tuple(
    (kind, tuple(words.split("/")), re.compile(pattern))
    for kind, words, pattern in (
        (
            "checkpoint-failed",
            "fail/could not/unable/error/corrupt/incomplete/truncated/no space/quota/cannot open",
            r"(?i)(?:fail(?!safe)\w*|could not|unable|error)\b.{0,40}\b(?:sav|writ)\w+\b"
            r".{0,40}(?:checkpoint|ckpt|model|state)"
            r"|(?:checkpoint|ckpt)\w*\b.{0,60}\b(?:fail(?!safe)\w*|corrupt\w*|incomplete|truncated)"
            r"|(?:sav|writ)ing\b.{0,60}\bfailed"
            r"|no space left on device|disk quota exceeded|PytorchStreamWriter failed"
            r"|\bwrite error: wrote \d+ \w+ instead of \d+|cannot open <.*> in mode +w\b",  # Torch7's of its disk files
        ),
        (
            "overflow",
            "overflow/found inf",
            r"OVERFLOW!|(?i:grad(?:ient)? overflow|overflow detected|overflow\b.{0,40}skipping|found inf)",
        ),
        (
            "update-skipped",
            "skip",
            r"(?i)\bskip(?:s|ped|ping)?\b.{0,40}\b(?:updating (?:the )?(?:model|weights|parameters)"
            r"|(?:model|weight|parameter|gradient|optimi[sz]er)s? (?:updates?|steps?)|updates?\b(?! check))"
            r"|\b(?:nan|inf|non-?finite|not finite)\b.{0,60}\bskip(?:s|ped|ping)?\b"
            r"|\bskip(?:s|ped|ping)?\b.{0,60}\b(?:nan|inf|non-?finite)\b",
        ),
        (
            "checkpoint-loaded",
            "load/restor",
            r"(?i)\bload(?:ed|ing)\b(?!.{0,40}(?:shards|pretrained)).{0,80}"
            r"\b(?:checkpoint|ckpt|state|optimizer|model from)"
            r"|(?:checkpoint|ckpt)\w*\b.{0,40}\bloaded|\brestor(?:ed|ing)\b.{0,60}\b(?:from|checkpoint|state)",
        ),
        (
            "restart",
            "resum/restart/continuing/relaunch",
            r"(?i)\bresum(?:e|ed|ing)\b(?!\w*['\"]?\s*[=:.]+\s*['\"]?(?:none|false|null|$))"
            r"|\brestart(?:ed|ing)?\b(?! (?:the )?(?:learning rate|lr|schedule|cosine|cycle|warm))"
            r"|continuing training from|\brelaunch",
        ),
        (
            "checkpoint-saved",
            "sav/wrote/writ/commit",
            r"(?i)\b(?<!not )(?:sav(?:e|ed|ing)|wrote|writing|written)\b.{0,80}"
            r"(?:checkpoint|ckpt|model|state|weights|\.(?:pt|pth|safetensors)\b)"
            r"|(?:checkpoint|ckpt)\w*\b.{0,60}\b(?<!not )(?:saved|written|committed)\b",
        ),
        (
            "oom",
            "memory/oom/exhausted",
            r"(?i)out of memory|outofmemoryerror|\boom[- ]?kill|resource_exhausted",
        ),
        (
            "nccl-timeout",
            "nccl/collective",
            r"(?i)nccl\b.*tim(?:e|ed)[ -]?out|watchdog caught collective|collective operation timeout",
        ),
        (
            "hardware",
            "xid/ecc/fallen/nvlink/hardware/illegal memory/corruption/unexpected result/thermal/throttl/slowdown"
            "/overheat/transient error/persistent error/reproducible/remap/retirement/gpu",
            r"\bXid\b|(?i:uncorrectable ecc|\becc error|fallen off the bus|nvlink error|hardware error"
            r"|illegal memory access|silent data corruption|unexpected result .{0,40}\bon rank"
            r"|\becc\b.{0,60}\berrors?\b|nvlink\b.{0,40}\b(?:fail\w*|down|fatal)"
            r"|\bgpu\b.{0,40}\b(?:lost|needs? (?:a )?reset)\b"
            r"|\bthermal\w*\b.{0,40}\b(?:throttl\w*|slowdown|violation|shutdown)|hw.slowdown|overheat"
            r"|possible (?:transient|persistent) error|result is not reproducible|row remap\w*.{0,40}(?:fail|pending)"
            r"|page retirement.{0,40}pending|hardware (?:fault|failure))",
        ),
        (
            "node-lost",
            "node/died/connection/contact/sigkill",
            r"(?i)\bnode\b.{0,30}\b(?:lost|failed|failure|unreachable|is down)|NODE_FAIL|worker\b.{0,30}\bdied"
            r"|connection (?:reset|closed) by (?:peer|remote)|lost (?:contact|connection)|received SIGKILL",
        ),
        (
            "preemption",
            "preempt/sigterm/sigusr/time limit/cancelled",
            r"(?i)\bpreempt|SIGTERM|SIGUSR1|due to time limit|CANCELLED AT",
        ),
        ("exit", "exit", r"(?i)^\W*(?:process )?exit(?:ed)?(?: with)?(?: return)? ?code\b"),
        (
            "finish",
            "train/successfully",
            r"(?i)training (?:has )?(?:completed|finished|is done|complete|done)\b"
            r"|exits? successfully|finished training",
        ),
        (
            "error",
            "error/exception/interrupt/fatal/critical/assert",
            r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?::|$)"
            r"|\bERROR\b|\bFATAL\b|\bCRITICAL\b|[Aa]ssert\w* .{0,40}failed",
        ),
        (
            "warning",
            "warn/requires_grad/nan/finite/newly initialized",
            r"\bWARN(?:ING)?\b|Warning\b|requires_grad=True|\bnewly initialized\b"
            r"|(?i:loss (?:is|was) (?:nan|inf)|nan detected|non-?finite)",
        ),
    )
)  # fmt: skip
# A line that holds none of these says nothing of the kind.
_STEMS = (
    "checkpoint", "ckpt", "overflow", "skip", "load", "restor", "resum", "restart", "continuing", "relaunch",
    "sav", "wrote", "writ", "memory", "oom", "exhausted", "nccl", "collective", "xid", "ecc", "fallen", "nvlink",
    "hardware", "corruption", "unexpected", "node", "died", "connection", "contact", "sig", "preempt", "limit",
    "cancelled", "exit", "train", "finish", "error", "exception", "interrupt", "fatal", "critical", "assert", "warn",
    "requires_grad", "nan", "finite", "no space", "quota", "traceback", "thermal", "throttl", "slowdown", "overheat",
    "reproducible", "remap", "retirement", "lost", "reset", "found inf", "newly init", "cannot open",
)  # fmt: skip
_STEP = re.compile(
    r"(?:.*?@\s?(\d+)\s+(?:updates|steps|iterations)\b"
    r"|.*?(?:global[_ ]?step|(?<![a-z])step|(?<![a-z])iter(?:ation)?|\bupdates?|checkpoint|ckpt|\bba)s?"
    r"[-_ =:/#]*(?!20\d\d[01]\d[0-3]\d(?!\d))0*(\d+)(?!\d|\.\d)"  # no date or duration: "/20241101_002913", ": 247.33"
    r"|.*?\s(\d+)\s+(?:updates|steps|iterations)\b)",
    re.IGNORECASE,
)
# Files may be numbered one after another: by far fewer than the steps that were done.
_NUMBERED_FILE = re.compile(r".*?(?:checkpoint|ckpt)s?[-_ /#]*\d+\.[a-z]", re.IGNORECASE)
_RANK = re.compile(r"\brank[ _:=]*(\d+)", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("During handling of", "The above exception")
_LONGEST = 2000
_REPEATS = 20  # of one error; more say nothing new
_UPDATES = frozenset({"overflow", "update-skipped"})  # said of the update after the last step seen
_ALWAYS = _UPDATES | {"checkpoint-saved", "checkpoint-failed", "checkpoint-loaded", "restart", "hardware"}
_RESUMED = frozenset({"restart", "checkpoint-loaded"})
_NUMBERS = re.compile(r"\d+")


# Functions that write or read a checkpoint, as a traceback names them.
_AT_A_CHECKPOINT = re.compile(
    r"\bin _?(?:save|load)_(?:checkpoint|state_dict|pretrained|model|state)\w*|\btorch\.(?:save|load)\("
    r"|\b_?(?:save|load)_(?:checkpoint|state_dict)\w*(?:\.\w+)*\(|\bdist_checkpointing\b"
)


@dataclass(slots=True)
class _Traceback:
    line: int
    last: str = ""
    at_checkpoint: bool = False


@dataclass(slots=True)
class Happenings:
    """Gathers events. Those whose step only the next record tells wait for it."""

    source: str
    naive: bool = False  # whether their times state no zone
    found: bool = False  # whether the last line that was looked at says that something happened, even if again
    _events: list[Event] = field(default_factory=list)
    _waiting: list[tuple[Event, int | None]] = field(default_factory=list)  # with the step seen before
    _open: dict[int | None, _Traceback] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _named: int | None = None  # the last step that a message named
    _saved: tuple[int | None, bool] | None = None  # of the last checkpoint: its step, and whether the message named it

    def note(self, kind: str, step: int | None, text: str, line: int | None) -> None:
        """What a record says happened."""
        self._events.append(Event(kind, step, text=text, source=self.source, line=line))

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def look(self, text: str, line: int, step: int | None) -> None:
        """What a line of text says happened, `step` being the last one seen."""
        speaks = _speaks(text)
        self.found = bool(self._open)
        if not (speaks or self._open):
            return
        prefix = prefix_of(text)
        rank = count_of(text[slice(*prefix.rank)]) if prefix.rank else None
        body = text[prefix.end :]
        if _TRACEBACK in body:
            self._open.setdefault(rank, _Traceback(line))
            self.found = True
            return
        if rank in self._open and (ended := self._trace(rank, body)) is not None:
            self._events += self._event(ended.last, text, ended.line, step, rank, trace=ended)
            return
        if rank not in self._open and speaks:
            self._events += self._event(text, text, line, step, rank)

    @property
    def traces(self) -> bool:
        """Whether a traceback is open."""
        return bool(self._open)

    @property
    def waits(self) -> bool:
        """Whether an event waits for the next record."""
        return bool(self._waiting)

    def reached(self, step: int) -> None:
        """A record with a step came: what waited for it."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for event, before in waiting:
            at = step if event.kind in _UPDATES else step - 1 if before is None else min(before, step - 1)
            self._events.append(_at(event, at))

    def end(self, step: int | None) -> None:
        """What was still open at the end of the log."""
        for event, before in self._waiting:
            self._events.append(_at(event, before))
        self._waiting = []
        for rank, trace in self._open.items():
            self._events += self._event(trace.last, trace.last, trace.line, step, rank, trace=trace)

    def _trace(self, rank: int | None, body: str) -> _Traceback | None:
        """The open traceback with its last words if this line ends it."""
        trace = self._open[rank]
        if not body.strip() or body[0] in " \t" or body.startswith(_CHAINED):
            trace.last = body.strip() or trace.last
            trace.at_checkpoint |= _AT_A_CHECKPOINT.search(body) is not None
            return None
        trace.last = body
        return self._open.pop(rank)

    def _event(
        self, said: str, text: str, line: int, step: int | None, rank: int | None, trace: _Traceback | None = None
    ) -> Iterator[Event]:
        low = said.lower()
        kind = next((k for k, words, pattern in _KINDS if any(w in low for w in words) and pattern.search(said)), None)
        if trace and kind not in {"oom", "nccl-timeout", "hardware", "node-lost", "checkpoint-failed"}:
            kind = "checkpoint-failed" if trace.at_checkpoint else "traceback"
        self.found |= kind is not None
        if kind is None or (kind not in _ALWAYS and self._told(kind, said)):
            return
        prefix = prefix_of(text)
        said_at = text[slice(*prefix.time)] if prefix.time else ""
        moment = parse_time(said_at) if said_at else NO_TIME
        self.naive |= is_naive(said_at)
        named = None if kind in {*_UPDATES, "warning"} else _STEP.match(said[:_LONGEST])
        self._named = count_of(named[named.lastindex or 0]) if named else self._named
        seen, step = step, self._named if step is None else step
        if kind == "checkpoint-saved":
            if (place := (self._named if named else step, bool(named))) == self._saved:
                return  # every rank says so
            self._saved = place
            if named and seen and 2 * count_of(named[named.lastindex or 0]) < seen and _NUMBERED_FILE.match(said):
                named = None
        spoken = _RANK.search(said) if rank is None else None
        event = Event(
            kind,
            self._named if named else None,
            None if moment == NO_TIME else moment / 1e6,
            rank if spoken is None else count_of(spoken[1]),
            said.strip()[:_LONGEST],
            self.source,
            line,
        )
        if event.step is not None and not (kind in _RESUMED and seen is None):  # it may be of another run
            yield event
        elif kind in _RESUMED or (kind in _UPDATES and step is None):
            self._waiting.append((event, seen))
        else:
            yield _at(event, step + 1 if kind in _UPDATES and step is not None else step)

    def _told(self, kind: str, text: str) -> bool:
        """Whether a message was repeated so often that it says nothing new."""
        skeleton = kind + _NUMBERS.sub("#", text[:120])
        count = self._counts[skeleton] = self._counts.get(skeleton, 0) + 1
        if len(self._counts) > 10_000:
            self._counts.clear()
        return count > (1 if kind == "warning" else _REPEATS)


def _speaks(text: str) -> bool:
    low = text.lower()
    return any(stem in low for stem in _STEMS)


def _at(event: Event, step: int | None) -> Event:
    return Event(event.kind, step, event.wall_time, event.rank, event.text, event.source, event.line)
