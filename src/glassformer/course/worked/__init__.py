"""The worked examples of four documents on Transformers, each computed again with the equations of the catalog."""
