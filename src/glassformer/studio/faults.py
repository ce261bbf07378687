"""Errors of the server beside those of the library."""

from glassformer.errors import GlassformerError


class UnknownRunError(GlassformerError, LookupError):
    """A run that is not kept, or a model that is not there."""
