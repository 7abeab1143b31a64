"""Where the run stands at each record: by what it counts, by progress bars, by its place in the log."""
