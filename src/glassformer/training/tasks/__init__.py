"""The tasks that models are trained for, one file each; `training.registry` lists them."""
