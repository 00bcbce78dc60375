"""Count the steps of each pattern of the package on hostile texts."""
