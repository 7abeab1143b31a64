from __future__ import annotations

from hypothesis import settings

# Examples touch files and start libraries: on a busy machine a single one may take any time.
settings.register_profile("trainforensics", deadline=None)
settings.load_profile("trainforensics")
