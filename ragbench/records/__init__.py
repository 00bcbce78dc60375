"""Typed records of the files of a run; `codec` converts them to JSON and back."""
