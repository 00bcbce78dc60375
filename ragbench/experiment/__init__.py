"""An experiment: a config, its plan, the stages that run it, and the folder that it leaves."""
