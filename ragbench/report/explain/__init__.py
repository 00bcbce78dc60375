"""Pages about queries: where they are lost, one of them, and the runs of a folder."""
