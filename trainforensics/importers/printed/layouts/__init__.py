"""Numbers that are not printed as a line of names and values: tables, dictionaries over several lines, whole curves."""
