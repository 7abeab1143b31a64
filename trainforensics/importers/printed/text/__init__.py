"""Console text before it is understood: its parts, its words, its numbers."""
