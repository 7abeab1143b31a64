"""The Parquet store: the normalised log, append-only parts per source, manifest last."""
