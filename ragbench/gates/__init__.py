"""Gates: conditions that a run has to meet, each of them passed, failed or undecided."""
