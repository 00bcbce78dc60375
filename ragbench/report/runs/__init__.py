"""Several runs: what changed between them, what moved, and how scores went on."""
