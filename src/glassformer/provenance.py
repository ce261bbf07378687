"""Where tensors made by plain torch operations come from: a tape can neither replay nor reverse those operations."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from glassformer.equation import tensors_in
from glassformer.steps import Operation, version_of


@dataclass(frozen=True, eq=False)
class PlainStep:
    """A plain operation that made or changed a tensor, and what it read: tensors, or the operations that made them.

    A gradient would go back through it if it is `smooth`. What it made is not kept alive for its sake.
    """

    operation: Operation
    made: TensorWeakRef
    read: tuple["Tensor | PlainStep", ...]
    smooth: bool

    def sources(self, smooth: bool = False) -> Iterator[Tensor]:
        """Every tensor that what it made comes from, by any number of plain operations, or by smooth ones."""
        own, seen = self.made(), set[int]()
        waiting: list[PlainStep] = [self]
        while waiting:
            origin = waiting.pop()
            if id(origin) in seen or (smooth and not origin.smooth):
                continue
            seen.add(id(origin))
            yield from (t for t in origin.read if isinstance(t, Tensor) and (t.is_floating_point() or not smooth))
            waiting.extend(before := [each for each in origin.read if isinstance(each, PlainStep)])
            made = (each.made() for each in before if each.smooth or not smooth)
            yield from (tensor for tensor in made if tensor is not None and tensor is not own)


class Provenance(TorchFunctionMode):
    """Records which tensors each torch operation makes, and from which, while `listening` returns true."""

    def __init__(self, listening: Callable[[], bool]) -> None:
        super().__init__()
        self._listening = listening
        self._origins: MutableMapping[Tensor, PlainStep] = WeakTensorKeyDictionary()

    def __torch_function__(
        self, func: Operation, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if not self._listening():  # inside an equation, or while the tape is off
            return func(*args, **kwargs)
        given = tensors_in([*args, *kwargs.values()])
        writes = [(tensor, version_of(tensor)) for tensor in given] if _may_write(func, kwargs) else []
        result = func(*args, **kwargs)
        changed = [tensor for tensor, version in writes if version_of(tensor) != version]
        made = [tensor for tensor in tensors_in(result) if not any(tensor is each for each in given)]
        if given and (made or changed) and not _takes_only_the_kind(func):
            bases = [tensor._base for tensor in changed if tensor._base is not None]
            self._note(func, given, [*made, *changed, *bases])
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause recording inside an equation, so that torch runs at full speed there."""
        if _get_current_function_mode() is not self:  # an outer equation paused it, or another mode is before it
            yield
            return
        with _pop_mode_temporarily():
            yield

    def between(self, tensor: Tensor, counts: Callable[[Tensor], bool]) -> Operation | None:
        """The plain operation through which a tensor comes from others that count, if there is one."""
        origin = self._origins.get(tensor)
        return origin.operation if origin is not None and any(map(counts, origin.sources())) else None

    def smooth_sources(self, tensor: Tensor) -> Iterator[tuple[Tensor, Operation]]:
        """The tensors that a gradient would go on to from one that a plain operation made, each with the operation."""
        origin = self._origins.get(tensor)
        return iter(()) if origin is None else ((source, origin.operation) for source in origin.sources(smooth=True))

    def _note(self, operation: Operation, given: Sequence[Tensor], made: Sequence[Tensor]) -> None:
        read = tuple(self._origins.get(tensor) or tensor for tensor in given)
        for tensor in made:
            smooth = tensor.is_floating_point() and operation is not Tensor.detach
            self._origins[tensor] = PlainStep(operation, TensorWeakRef(tensor), read, smooth)


def _takes_only_the_kind(func: Operation) -> bool:
    """Whether an operation reads a tensor for its shape, dtype and device alone, such as `zeros_like`."""
    name = getattr(func, "__name__", "")
    return name.startswith("new_") or name.endswith("_like")


def _may_write(func: Operation, kwargs: Mapping[str, object]) -> bool:
    """Whether an operation may change what it is given, such as `add_`, `+=` or an item that is set."""
    name = getattr(func, "__name__", "")
    in_place = name == "__setitem__" or name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
    return in_place or "out" in kwargs or "inplace" in kwargs
