"""Lines that hold a number and hardly a name."""

from __future__ import annotations

import re

# A count between a result and its name, or before a number alone on its line: "Train loss 5 0.25", "loss: (5, 0.25)",
# "5:\t0.25", "epoch 5: 0.25", "500 0.25"; or behind it, "0.25, 500".
COUNTED_RESULT = re.compile(
    r"\s*(?:(?:[A-Za-z]+ )*(?:loss|reward|accuracy|error)(?: |\s?[:=]\s?\()(?P<count>\d+)(?::? +|, ?)"
    r"|(?:(?:epoch|step|iter(?:ation)?) )?(?P<bare>\d+):[ \t]+(?=\S+\s*$)|(?P<beside>\d+)[ \t]+(?=\S+\s*$))"
    r"[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![^\s)])|\s*[-+]?\d+\.\d+(?:e[-+]?\d+)?,?[ \t]+(?P<behind>\d+)\s*$",
    re.IGNORECASE,
)
# An identifier, or the name of a loss, and its value alone on a line: "gen_loss_GAN 2.5", "D loss: 0.5";
# a loss before others, "loss 0.5 acc 0.75".
NAME_AND_NUMBER = re.compile(
    r"\s*(?:[A-Za-z]+(?:_[A-Za-z\d]+)+\s+|(?:[A-Za-z][\w-]* ){1,3}[Ll]oss\s*[:=]\s*)"
    r"[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|nan)\s*[:;,.]?\s*$"
    r"|\s*(?:[A-Za-z]+ )?[Ll]oss[ \t]+[-+]?\d+\.\d+(?:[ \t,]+[A-Za-z]\w*[ \t]+[-+]?\d+\.\d+[a-z%]*)*\s*$"
)
