"""What lines say that are no records: events, settings, headings; and those that say nothing."""
