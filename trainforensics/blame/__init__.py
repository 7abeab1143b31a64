"""Which data fed an incident: step, batch, shard, document, and how sure."""

from trainforensics.blame.accuse import accuse
from trainforensics.blame.attach import FROM_THIS_STEP, at_step, attach
from trainforensics.blame.siblings import cross_run
from trainforensics.blame.skip import skip

__all__ = ["FROM_THIS_STEP", "accuse", "at_step", "attach", "cross_run", "skip"]
