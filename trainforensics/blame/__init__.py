"""Which data fed an incident: step, batch, shard, document, and how sure."""
