"""Plans: what a model takes in parameters, operations, memory and time, before anything is run."""
