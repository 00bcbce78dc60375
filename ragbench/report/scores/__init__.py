"""What `ragbench score` prints: one file per `--format`, all of them pure functions."""
