"""Rows, arrays and locks of a cache folder on disk, which runs share."""
