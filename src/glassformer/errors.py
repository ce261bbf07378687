"""Errors that users see: each says what is wrong, where, and what was expected."""

FAILED = 1  # exit status of a check or a run that failed
BAD_USE = 2  # exit status of a wrong call: a missing file, a bad value, conflicting options


class GlassformerError(Exception):
    """Any error that a user can fix; the command line prints it without a traceback and exits with `status`."""

    status: int = FAILED


def require_type(
    error: type[GlassformerError], name: str, value: object, kinds: type | tuple[type, ...], wanted: str
) -> None:
    """Raise unless an argument has one of these types; `wanted` says them in words."""
    if not isinstance(value, kinds):
        raise error(f"{name} is of the type {type(value).__name__}, wanted {wanted}")


class EquationError(GlassformerError, ValueError):
    """An equation is not defined for these inputs."""


class TapeError(GlassformerError, RuntimeError):
    """A tape cannot be replayed or reversed as asked."""


class ConfigError(GlassformerError, ValueError):
    """A configuration is invalid."""

    status = BAD_USE


class ModelError(GlassformerError, ValueError):
    """A model cannot take these inputs."""

    status = BAD_USE


class DecodingError(GlassformerError, ValueError):
    """A model cannot generate, or cannot generate with these settings."""

    status = BAD_USE


class NonFiniteError(DecodingError, ArithmeticError):
    """What a model computes is NaN or infinite: there is no next token to choose, or no loss."""

    status = FAILED


class CheckpointError(GlassformerError, ValueError):
    """A checkpoint does not match the model: missing, extra or malformed content."""


class TokenizerError(GlassformerError, ValueError):
    """A tokenizer cannot be read or trained, or cannot take this input."""


class TokenizerSettingError(TokenizerError, ConfigError):
    """A tokenizer cannot be trained with these settings, whatever the data is."""

    status = BAD_USE


class DataError(GlassformerError, ValueError):
    """Data cannot be read, or cannot be trained on."""


class PathError(CheckpointError, DataError, TokenizerError):
    """A path does not exist, or is not the expected kind of file or folder."""

    status = BAD_USE


class RunFolderError(GlassformerError, RuntimeError):
    """A run folder cannot be read, written or shared between processes."""


class BrokenCheckpointError(RunFolderError):
    """A checkpoint is not what was saved: truncated, altered or incomplete."""


class RunFolderWarning(UserWarning):
    """Something in a run folder was skipped or moved aside; work continues."""


class FitError(GlassformerError, ValueError):
    """Runs do not determine a scaling law, or cannot be compared."""

    status = BAD_USE


class TrainingError(GlassformerError, RuntimeError):
    """A training run cannot continue."""


class InterruptedRunError(GlassformerError, RuntimeError):
    """A signal ended a run after its last step was saved; `status` is what a program then exits with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class LessonError(GlassformerError, AssertionError):
    """A lesson makes a claim that does not hold, or does not exist."""


class MissingExtraError(GlassformerError, ImportError):
    """A library is needed that only an optional extra of the package installs."""

    status = BAD_USE
