from __future__ import annotations

from hypothesis import settings

# Examples touch files and start libraries: on a busy machine a single one may take any time. The same examples each
# time, so that a change is judged and not the dice.
settings.register_profile("trainforensics", deadline=None, derandomize=True)
settings.load_profile("trainforensics")
