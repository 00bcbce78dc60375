"""What runs leave behind, read back: run folders, their scores and summaries, baseline files."""
