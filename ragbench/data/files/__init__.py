"""Texts, lines, tables and the records in them: what every loader reads files with."""
