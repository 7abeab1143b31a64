"""What a line is made of: numbers, times, durations and shares, between words."""

from __future__ import annotations

import re

_ISO = r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = rf"(?<!\w){MONTH} [ \d]\d \d{{2}}:\d{{2}}:\d{{2}}(?:\.\d+)?"
_NO_YEAR = (
    r"(?:(?<![\d/])\d{2}/\d{2}(?:/\d{4}|/\d{2})?|(?<=\b[IWEF])\d{4}) \d{2}:\d{2}:\d{2}(?:[.,]\d+)?"  # or last; glog
)
_MAIL = rf"(?<![\w/:-])\d\d? {MONTH} \d{{4}} \d{{2}}:\d{{2}}:\d{{2}}(?:[.,]\d+)?"  # "03 Nov 2018 16:39:48"
TIME = rf"(?:{_ISO}|{_SYSLOG}|{_NO_YEAR}|{_MAIL})"
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NO_NUMBER = r"1\.#(?:[QS]NAN|IND|INF)0*|(?i:nan|inf(?:inity)?)(?:\((?:ind|snan)\))?"
MISSING = r"(?:[Nn]one|null|NULL|undefined|N/?A|n/a)"
NUMBER = rf"[-+]?(?:{_NO_NUMBER}|{_DIGITS})"
# Counts are printed with these ("1.2B tokens"); other units are part of the text around the number.
COUNT_SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
COUNTED = r"(?:epoch|step|iter(?:ation)?|batch|minibatch)(?:s|es)?"  # "1epoch", "101-200batch"
_UNIT = (
    rf"%|dB|{COUNTED}|(?:[KMGT]i?B|ms|us|µs|ns|sec|s|min|m|h|d|z|x|it|tok|tokens|[KMGTP]?FLOPS?|[KMG])(?:/[A-Za-z]+)*"
)
_WRAPPED = r"(?:torch\.|tf\.)?[tT]ensor|array|(?:np|numpy)\.\w+|(?:jnp\.|jax\.)?(?:Device)?Array"

_VALUE = rf"(?<![\w.@#])(?<![\w%)]-)(?<!\bof )(?<!\bor ){NUMBER}"  # "number of nan iterations"

# "39 minutes and 2.1 seconds"
IN_WORDS = r"\d+ (?:day|hour|minute)s?(?:,? (?:and )?[\d.]+ (?:hour|minute|second)s?)+"
TOKEN = re.compile(
    rf"(?P<time>(?<![\d.]){TIME})"
    r"|(?P<duration>(?<![\w.])(?:(?:\d+ days?,? )?\d+:\d{2}(?::\d{2}(?:\.\d+)?)?(?![\d:])"
    rf"|{IN_WORDS}|(?:\d+d ?)?(?:\d+h ?\d+m|\d+m ?(?=\d+(?:\.\d+)?s))(?: ?\d+(?:\.\d+)?s)?(?!\w)))"
    r"|(?P<share>(?<![\w./@#-])\d+(?:\s*/\s*| of )\d+(?![\w./]))"
    rf"|(?P<range>(?<![\w.@#/-])(?:\d+-(?=\d+{COUNTED}\b)|(?<=\[)\d+-(?=\d+\]))(?P<last>\d+))"
    rf"|(?P<wrap>(?<![\w.])(?:{_WRAPPED})\(\s*\[?\s*(?P<inner>{NUMBER})[^()]*(?:\(\)[^()]*)?\))"
    rf"|(?P<number>{_VALUE})(?P<unit>[kKMGBT](?![\w/])|(?:{_UNIT})(?![\w]))?(?![\w.]*\w)"
    rf"|(?P<none>(?:(?<=[:=] )|(?<=[:=])){MISSING}\b)"
)


def words_of(text: str) -> str:
    """Text without the marks around it."""
    return text.strip(" \t\"'`:=[(]){}*>#-/.!~|,;%")
