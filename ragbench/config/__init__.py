"""The YAML file: read with positions, validated as a whole before anything runs."""
