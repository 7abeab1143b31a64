"""A line that is a record: its numbers and their names, what they count, and the expression for further lines of it."""
