"""Looking into a model."""

from glassformer.probes.agreement import Agreement, agreement

__all__ = ["Agreement", "agreement"]
