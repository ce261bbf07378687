"""`glassformer similar`: nearest words and texts, analogies, and a map of words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named, vectors_named
from glassformer.cli.output_files import MAP_MARK, require_free
from glassformer.cli.report import Flag, Json, MaybePath, UsageError, named_as_options, talk, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, pictures_among, texts_of

if TYPE_CHECKING:
    from glassformer.checkpoints.vectors import Neighbor, WordVectors
    from glassformer.interface import LoadedModel


def similar(
    model: ModelName,
    /,
    *query: TextArgument,
    file: TextFile = None,
    analogy: Annotated[Flag, Parameter(help="An analogy: king man woman asks for king − man + woman.")] = False,
    map: Annotated[MaybePath, Parameter(alias="-o")] = None,
    top_k: int = 10,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Find the nearest words or texts, complete analogies, or draw a map of words.

    The model is one trained by skip-gram, or a file of word vectors (GloVe, fastText, word2vec). With --file, any model
    that embeds texts finds the nearest of its lines; for a CLIP, the paths of image files are pictures.

    Parameters
    ----------
    query
        Words, texts or image files to compare with; - is standard input, one per line.
    file
        Candidates, one text or image file per line; the nearest of them are found instead of the nearest words.
    map
        Draw the words of the query in two dimensions by principal components, as this .svg file.
    top_k
        Number of neighbors to show.
    """
    given = _queries(query, analogy, file is not None)
    if map is not None and map.suffix != ".svg":
        raise UsageError(f"--map: {map} does not end in .svg")
    require_free([(map, MAP_MARK)])
    source = _source(model, options)
    with named_as_options("top_k"):
        found = _answers(source, given, texts_of((), file) if file is not None else None, analogy, top_k)
    if map is not None:
        from glassformer.asking.similar import word_map

        map.write_text(word_map(_words_of(source), given), encoding="utf-8")
        talk(f"wrote {map}")
    if json:
        write_json([{"query": text, "neighbors": near} for text, near in found.items()])
    elif map is None:
        _show(found)


def _queries(query: Sequence[str], analogy: bool, has_candidates: bool) -> list[str]:
    """The queries, in the number that is wanted."""
    given = texts_of(query, None)
    if analogy and has_candidates:
        raise UsageError("--analogy and --file are both given, wanted one of them")
    if analogy and len(given) != 3:
        raise UsageError(f"--analogy has {len(given)} words, wanted three, as in --analogy king man woman")
    return [text.strip() for text in given]


def _source(model: str, options: LoadOptions) -> "LoadedModel | WordVectors":
    """A loaded model, or the word vectors of a file."""
    vectors = vectors_named(model)
    return load_named(model, options) if vectors is None else vectors


def _words_of(source: "LoadedModel | WordVectors") -> "WordVectors":
    from glassformer.checkpoints.vectors import WordVectors

    return source if isinstance(source, WordVectors) else source.vectors()


def _answers(
    source: "LoadedModel | WordVectors", given: list[str], candidates: list[str] | None, analogy: bool, top_k: int
) -> "dict[str, list[Neighbor]]":
    """The neighbors of each query by its text; those of an analogy by its formula."""
    from glassformer.checkpoints.vectors import WordVectors

    if candidates is not None:
        if isinstance(source, WordVectors):
            raise UsageError("--file compares whole texts, and a file of vectors knows words only: leave it out")
        others = pictures_among(source, candidates)
        queries = zip(given, pictures_among(source, given), strict=True)
        return {text: source.similar(query, others, top_k) for text, query in queries}
    words = _words_of(source)
    if analogy:
        king, man, woman = given
        return {f"{king} − {man} + {woman}": words.analogy(king, man, woman, top_k)}
    return {text: words.similar(text, top_k) for text in given}


def _show(found: "dict[str, list[Neighbor]]") -> None:
    for text, near in found.items():
        write(text.replace("\n", " "))
        for one in near:
            write(f"  {one.cosine:6.3f}  {one.text}")
