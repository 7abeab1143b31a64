"""A cheap look at whether a line may hold a record, before it is learned as one."""

from __future__ import annotations

import re

# A line without a count or a result beside a number is no record; the words are a cheap look before the expression.
_WORDS = (
    "step", "iter", "epoch", "batch", "update", "s:", "train", "test", "val", "[", "loss", "acc", "ppl", "perplexity",
    "bpb", "bpc", "score", "rew", "norm", "error", "mse", "nll", "entropy", "cost", "episode", "up.", "@", "sec",
    "time", " l=", "it ", "it:", "round", "gen", "tick", "i=", "rate", "iou", "dice", "psnr", "ssim", "bleu", "auc",
    "map", "f1", "recall", "precision", "ndcg", "mrr", "wer", "cer", "fid", "rmse", "top", "rank-", "memory", "dist",
    "lr",
)  # fmt: skip
_HINT = re.compile(
    r"(?:step|iter|ation|epoch|episode|batch|update|\bs|train|test|val|ba|it|\bup\.)s?['\"]?(?:\([a-z]+\))?[\s:=\[(#]{0,12}\d"
    r"|(?:loss|acc|ppl|perplexity|bp[bc]|score|reward|norm|error|mse|nll|entropy|cost|dist(?:ance)?|psnr|ssim|bleu|dice|@\d"
    r"|\b(?:m?iou|map|f1|top-?\d|rank-\d|auc|recall|precision|ndcg|mrr|wer|cer|fid|rmse)\b)\w*['\"]?[\s:=(\[]{1,12}['\"]?(?:[-+\d.ni]|(?:tf\.)?tensor\()"
    r"|\b(?:round|gen|generation|tick)\s?[:=]?\s*\d|^\s*\[\d+[\],]|^\s*\d+:?\s+[-+\d.]|[a-z_)]\s?[:=]\s?[-+]?\d.*[a-z_)]\s?[:=]\s?[-+]?\d"
    r"|\{'[\w/. -]+':\s|\bval/[\w/]+(?:: |=)|\bepoch time: \d|/s(?:ec)?: \d+\.\d"
    r"|(?:^|[:\]|-])\W*(?:lr|(?:current |new )?learning[ _]rate)\s?[:=]\s?-?[\d.]|\btimers/"
)


def may_be_record(line: str) -> bool:
    """Whether a line may hold a record."""
    low = line.lower()
    return (low[:1].isdigit() or any(word in low for word in _WORDS)) and _HINT.search(low) is not None
