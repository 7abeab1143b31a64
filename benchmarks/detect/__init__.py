"""trainforensics, public rules and public tools on the same labelled runs, judged by the same scorer."""
