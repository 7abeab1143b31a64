"""Why it happened: one hypothesis a file, weighed for and against."""
