"""What `ragbench compare` prints: a table, Markdown, LaTeX, CSV or JSON."""
