"""Looking into a model."""

from glassformer.probes.agreement import Agreement, agreement
from glassformer.probes.attention_maps import attention_maps

__all__ = ["Agreement", "agreement", "attention_maps"]
