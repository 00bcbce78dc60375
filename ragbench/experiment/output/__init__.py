"""What a finished run writes: its summary, its manifest, its files and its pages."""
