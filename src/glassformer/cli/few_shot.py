"""`glassformer few-shot`: answers by examples in the prompt, without any training."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.generation_flags import GREEDY, GenerationFlags, generation_flags
from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, SomePath, UsageError, require_exists, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, texts_of

if TYPE_CHECKING:
    from glassformer.decoding.few_shot import Example

FewShotFlags: TypeAlias = Annotated[
    GenerationFlags, generation_flags("prefill_chunk|batch_tokens|n|stop|num_beams|length_penalty")
]
FIELDS = ("question", "answer")


def few_shot(
    model: ModelName,
    /,
    *queries: TextArgument,
    examples: Annotated[SomePath, Parameter(alias="-e")],
    shots: int | None = None,
    instruction: str = "",
    file: TextFile = None,
    config: FewShotFlags = GREEDY,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Answer questions by examples in the prompt, without training.

    Parameters
    ----------
    queries
        Questions to answer; - is standard input, one question per line.
    examples
        A .tsv, .csv or .jsonl file with the fields question and answer.
    shots
        Number of examples to show, the first of the file; all of them if left out, and 0 shows none.
    instruction
        Text that the prompt begins with.
    file
        A file with one question per line; - is standard input.
    """
    if shots is not None and shots < 0:
        raise UsageError(f"--shots is {shots}, wanted 0 or more")
    require_exists(examples)
    given = texts_of(queries, file)
    from glassformer.decoding.few_shot import few_shot_prompt, few_shot_stops

    known = _examples(examples, shots)
    loaded = load_named(model, options)
    prompts = [few_shot_prompt(known, question, instruction) for question in given]
    found = [one.text.strip() for one in loaded.generate(prompts, replace(config, stop=few_shot_stops()))]
    if json:
        rows = zip(given, found, prompts, strict=True)
        write_json([{"question": question, "answer": answer, "prompt": prompt} for question, answer, prompt in rows])
        return
    for answer in found:
        write(answer)


def _examples(path: Path, shots: int | None) -> "list[Example]":
    """The examples of a file, or the first few."""
    from glassformer.data.files import read_pairs
    from glassformer.decoding.few_shot import Example

    found = [Example(pair.first, pair.second) for pair in read_pairs(path, None, FIELDS)]
    if shots is not None and shots > len(found):
        raise UsageError(f"--shots is {shots}, and {path} has {len(found)} examples")
    return found[:shots]
