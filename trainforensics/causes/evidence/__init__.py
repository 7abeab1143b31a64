"""Evidence that several hypotheses share, a room a subject: the fact said once, with the points each gives it."""
