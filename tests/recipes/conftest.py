"""Files of this folder are put into a copy of the repository by `tests/test_recipes.py`."""

collect_ignore_glob = ["*"]
