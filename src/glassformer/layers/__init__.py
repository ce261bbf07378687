"""Parameters around equations: the parts that models are built from."""
