"""What a run will do, resolved against the data before anything is asked."""
