"""Fuzzing: whatever bytes are read, the end is success or an error of ours."""
