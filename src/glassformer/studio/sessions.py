"""What the server holds: models by name, and the last few runs, each with its trace."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from glassformer.errors import GlassformerError
from glassformer.probes.changes import apply_changes
from glassformer.probes.edits import RunChange
from glassformer.probes.inputs import ModelInputs
from glassformer.probes.trace import Trace
from glassformer.studio.faults import UnknownRunError
from glassformer.studio.pictures import Pictures
from glassformer.studio.run_inputs import run_inputs

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel
    from glassformer.studio.first_model import FirstModel

KEPT = 8  # runs
LONGEST_TEXT = 20_000  # characters


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the page asks to run; `model` is one of the names that `/models` lists, the first if it is left out."""

    text: str
    second: str | None = None
    backward: str | None = None
    model: str | None = None
    written: str | None = None
    changes: tuple[RunChange, ...] = ()

    @property
    def id(self) -> str:
        """The same for the same request."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:12]


@dataclass(frozen=True)
class KeptRun:
    """A run that the server keeps; hold its lock while computing on it."""

    request: Request
    loaded: "LoadedModel"
    trace: Trace
    built_in: bool = False  # it is the translator that Studio trains
    lock: threading.Lock = field(default_factory=threading.Lock)


class Sessions:
    """Models and runs, shared by all pages."""

    def __init__(self) -> None:
        self._models: dict[str, Callable[[], LoadedModel] | LoadedModel] = {}
        self.first: FirstModel | None = None  # the built-in translator, where no model was given
        self.pictures = Pictures()
        self.open_other: Callable[[str], LoadedModel | None] = lambda name: None  # a checkpoint by its name, say
        self._runs: OrderedDict[str, KeptRun] = OrderedDict()
        self._lock = threading.Lock()  # of the two above
        self._opening = threading.Lock()  # a model is read once
        self.computing = threading.Lock()  # hold it while a model runs: a trace replaces its weights for a moment

    def add_model(self, name: str, model: "LoadedModel | Callable[[], LoadedModel]") -> None:
        """Offer a model under a name; a function is called when the model is first needed."""
        with self._lock:
            self._models[name] = model

    @property
    def models(self) -> list[str]:
        """The names of the models, the first one opened first."""
        with self._lock:
            return list(self._models)

    def model(self, name: str | None = None) -> "LoadedModel":
        """The model of this name, or the first."""
        with self._lock:
            names = list(self._models)
        wanted = names[0] if name is None and names else name
        if wanted is not None and wanted not in names and (other := self.open_other(wanted)) is not None:
            return other
        if wanted not in names:
            raise UnknownRunError(f"there is no model {name!r}; there are {', '.join(names) or 'none yet'}")
        with self._opening:
            found = self._models[wanted]
            if callable(found):
                self._models[wanted] = found = found()
        return found

    def start(self, request: Request) -> KeptRun:
        """Run a model on a text; the same request gives the run that is there."""
        if any(len(each or "") > LONGEST_TEXT for each in (request.text, request.second, request.written)):
            raise GlassformerError(f"the text has over {LONGEST_TEXT:,} characters: shorten it")
        loaded = self.model(request.model)
        with self.computing:
            with self._lock:
                if request.id in self._runs:
                    self._runs.move_to_end(request.id)
                    return self._runs[request.id]

            def read(text: str, second: str | None, written: str | None = None) -> ModelInputs:
                return run_inputs(loaded, text, second, written, self.pictures.pixels)

            run = read(request.text, request.second, request.written)
            found = apply_changes(loaded, run, request.changes, request.backward, read)
            built_in = self.first is not None and request.model in (None, *self.models[:1])
            kept = KeptRun(request, loaded, found, built_in)
            with self._lock:
                self._runs[request.id] = kept
                while len(self._runs) > KEPT:
                    self._runs.popitem(last=False)
        return kept

    def run(self, id: str) -> KeptRun:
        """A run by its id."""
        with self._lock:
            if id not in self._runs:
                raise UnknownRunError(f"run {id} is not kept any more: the last {KEPT} are; run the text again")
            self._runs.move_to_end(id)
            return self._runs[id]
