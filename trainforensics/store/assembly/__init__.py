"""From the sources of a folder to its runs: which belong together, and where their process lives begin."""
