"""The kinds of record that a log holds, and how a new one is learned among them."""
