"""The errors a user can meet; each says what was wrong, where, and what was wanted."""

FAILED = 1  # exit status of a check that failed or a run that went wrong
BAD_USE = 2  # and of a call that cannot be carried out: a missing file, a bad value, options that exclude each other


class GlassformerError(Exception):
    """Anything a user can mend; the command line prints it without a traceback and exits with `status`."""

    status: int = FAILED


class EquationError(GlassformerError, ValueError):
    """An equation was given something it is not defined for."""


class TapeError(GlassformerError, RuntimeError):
    """A tape cannot be replayed or reversed as asked."""


class ConfigError(GlassformerError, ValueError):
    """A configuration that no model can be built from."""

    status = BAD_USE


class ModelError(GlassformerError, ValueError):
    """A model was given something it cannot take."""


class DecodingError(GlassformerError, ValueError):
    """A model cannot write what it was asked to, or not in the way it was asked to."""

    status = BAD_USE


class NonFiniteError(DecodingError, ArithmeticError):
    """A model's logits are NaN or infinite, so there is no next token to choose."""

    status = FAILED


class CheckpointError(GlassformerError, ValueError):
    """A file does not hold what a model needs, or holds more."""


class TokenizerError(GlassformerError, ValueError):
    """A tokenizer cannot be read or learnt, or was given something it cannot take."""


class DataError(GlassformerError, ValueError):
    """Data that cannot be read, or that nothing can be learnt from."""


class PathError(CheckpointError, DataError, TokenizerError):
    """A path was given that does not exist, or that is not the kind of file or folder that was wanted."""

    status = BAD_USE


class RunFolderError(GlassformerError, RuntimeError):
    """A run folder cannot be read, written or shared as asked."""


class BrokenCheckpointError(RunFolderError):
    """A checkpoint is not what was saved: cut short, altered or incomplete."""


class RunFolderWarning(UserWarning):
    """Something in a run folder was passed over or set aside, and work goes on."""


class TrainingError(GlassformerError, RuntimeError):
    """A run cannot go on."""


class InterruptedRunError(GlassformerError, RuntimeError):
    """A signal ended a run after its last step was saved; `status` is what a program then exits with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class LessonError(GlassformerError, AssertionError):
    """A lesson says something that does not hold."""


class MissingExtraError(GlassformerError, ImportError):
    """A library is asked for that only an extra of the package installs."""

    status = BAD_USE
