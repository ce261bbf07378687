"""Generation settings as options of a command."""

import re
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from glassformer.decoding.config import GenerationConfig


def generation_flags(left_out: str) -> Parameter:
    """Every field of a GenerationConfig as a flag, except those that a pattern names."""
    return Parameter(
        name="*",
        parse=re.compile(rf"^(?!({left_out})$)"),
        negative="",
        show_default=lambda value: value if type(value) in (int, float) else None,
    )


@dataclass(frozen=True, kw_only=True)
class GenerationFlags(GenerationConfig):
    """Generation settings with short forms of the common ones."""

    max_new_tokens: Annotated[int, Parameter(alias="-m")] = GenerationConfig.max_new_tokens
    temperature: Annotated[float, Parameter(alias="-t")] = GenerationConfig.temperature
    top_k: Annotated[int | None, Parameter(alias="-k")] = GenerationConfig.top_k
    top_p: Annotated[float | None, Parameter(alias="-p")] = GenerationConfig.top_p
    no_repeat_ngram_size: Annotated[int, Parameter(alias="--no-repeat-ngram")] = GenerationConfig.no_repeat_ngram_size
    n: Annotated[int, Parameter(alias="-n")] = GenerationConfig.n
    seed: Annotated[int, Parameter(alias="-s")] = GenerationConfig.seed
    num_beams: Annotated[int, Parameter(alias="-b")] = GenerationConfig.num_beams

    def _name(self, field: str) -> str:
        """A setting is an option here."""
        return f"--{field.replace('_', '-')}"


GREEDY = GenerationFlags()
