"""The model that Studio opens without one: the built-in translator, trained in the background on the first start.

The trained model is kept in the user's cache folder with a digest of each file. One that is not whole is said, removed
and trained again.
"""

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from glassformer import __version__, durable
from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.decoding.generate import translate
from glassformer.errors import BrokenCheckpointError, GlassformerError, ModelError
from glassformer.interface import LoadedModel
from glassformer.training import built_in_translator
from glassformer.training.built_in_translator import TranslatorRun, begin_translator, split_pairs

NAME = "built-in translator"
EXAMPLE = "The cat is small."  # a sentence that home begins with, and that is translated now and then while it trains
GRACE = 2  # seconds that a step has when training is given up
SEED, LOG_EVERY, SAMPLE_EVERY, SAMPLE_TOKENS = 0, 10, 50, 16
FOLDER, DIGESTS = "translator-", "digests.json"


class ExampleTranslation(msgspec.Struct, frozen=True):
    """What the translator makes of the example after some steps."""

    step: int
    text: str


class FirstModelProgress(msgspec.Struct, frozen=True):
    """How far the translator is; `left` is in seconds, and `note` says what went wrong on the way, if anything did."""

    state: Literal["starting", "training", "ready", "failed"] = "starting"
    step: int = 0
    steps: int = built_in_translator.STEPS
    losses: tuple[tuple[int, float], ...] = ()
    samples: tuple[ExampleTranslation, ...] = ()
    left: float | None = None
    note: str = ""
    example: str = EXAMPLE


class FirstModel:
    """The built-in translator, read from the cache or trained in a thread."""

    def __init__(self, steps: int = built_in_translator.STEPS, say: Callable[[str], None] = lambda text: None) -> None:
        self.steps, self.say = steps, say
        self._progress = FirstModelProgress(steps=steps)
        self._model: LoadedModel | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="first model", daemon=True)

    def start(self) -> "FirstModel":
        """Begin to read or train it, and return at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Give up training at the next log line, and wait a moment for that."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(GRACE)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is ready or has failed."""
        self._thread.join(seconds)

    @property
    def progress(self) -> FirstModelProgress:
        """How far it is."""
        return self._progress

    def loaded(self) -> LoadedModel:
        """The model, or an error that says how far it is."""
        if self._model is not None:
            return self._model
        now = self._progress
        if now.state == "failed":
            raise ModelError(f"the {NAME} could not be made: {now.note}")
        raise ModelError(f"the {NAME} is being trained, step {now.step} of {now.steps}: it is ready in a moment")

    @property
    def folder(self) -> Path:
        """Where it is kept: another folder for another version or another training."""
        made_of = (__version__, self.steps, SEED, built_in_translator.TRAINING, built_in_translator.HELD_OUT)
        return durable.cache_folder() / f"{FOLDER}{hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]}"

    def _work(self) -> None:
        try:
            found = self._read() or self._train()
        except (GlassformerError, OSError, RuntimeError, MemoryError) as error:
            self._report(state="failed", note=str(error) or type(error).__name__)
        else:
            if found is not None:
                self._model = found
                self._report(state="ready", left=0.0)

    def _report(self, **changes: object) -> None:
        before = self._progress
        self._progress = msgspec.structs.replace(before, **changes)
        if self._progress.note != before.note:
            self.say(self._progress.note)

    def _read(self) -> LoadedModel | None:
        """The model of an earlier start, or None if there is none or it is damaged."""
        if not self.folder.exists():
            return None
        try:
            require_whole(self.folder)
            found = load(self.folder)
        except GlassformerError as error:
            self._report(note=f"the {NAME} of an earlier start is damaged and is trained again ({error})")
            durable.discard(self.folder)
            return None
        return LoadedModel(found.model, found.tokenizer)

    def _train(self) -> LoadedModel | None:
        """Train it and keep it, or None if it is no longer wanted."""
        self._report(state="training")
        pairs, _ = split_pairs(SEED)
        if self._stop.is_set():
            return None
        run = begin_translator(pairs, self.steps, SEED, LOG_EVERY)
        for log in run.logs:
            if self._stop.is_set():
                return None
            losses = (*self._progress.losses, (log.step, log.loss))
            left = log.seconds / log.step * (self.steps - log.step)
            self._report(step=log.step, losses=losses, left=left, samples=self._samples(run, log.step))
        self._keep(run)
        return LoadedModel(run.model, run.tokenizer)

    def _samples(self, run: TranslatorRun, step: int) -> tuple[ExampleTranslation, ...]:
        known = self._progress.samples
        if step % SAMPLE_EVERY and step != self.steps:
            return known
        (text,) = translate(run.model, run.tokenizer, [EXAMPLE], SAMPLE_TOKENS)
        return (*known, ExampleTranslation(step, text))

    def _keep(self, run: TranslatorRun) -> None:
        """Keep it for the next start, in place of older ones; where that fails it is used all the same."""
        cache = durable.cache_folder()
        scratch = cache / durable.scratch_name("translator")
        try:
            with durable.explained(f"{cache}: the {NAME} is not kept for the next start"):
                durable.make_folder(cache)
                save(run.model, scratch, run.tokenizer)
                durable.write_new(scratch / DIGESTS, msgspec.json.encode(digests(scratch)))
                for old in cache.glob(f"{FOLDER}*"):
                    durable.remove(old)
                durable.move(scratch, self.folder)
        except GlassformerError as error:
            durable.discard(scratch)
            self._report(note=str(error))


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder but that of the digests."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name != DIGESTS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def require_whole(folder: Path) -> None:
    """Raise unless every file of a kept model is as it was written."""
    with durable.explained(str(folder)):
        try:
            known = msgspec.json.decode((folder / DIGESTS).read_bytes(), type=dict[str, str])
        except msgspec.DecodeError as error:
            raise BrokenCheckpointError(f"{DIGESTS} cannot be read: {error}") from None
        changed = sorted(name for name, digest in (known | digests(folder)).items() if known.get(name) != digest)
        changed += sorted(known.keys() - digests(folder).keys())
    if changed:
        raise BrokenCheckpointError(f"{', '.join(changed)} changed since it was written")
