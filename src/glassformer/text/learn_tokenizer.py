"""A tokenizer from a corpus: characters, words with or without signs, byte-level BPE, WordPiece or Unigram."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.errors import TokenizerError, TokenizerSettingError
from glassformer.text.corpus import pieces
from glassformer.text.special_tokens import TextTemplate
from glassformer.text.tokenizer import Role, Tokenizer, TokenizerKind, guarded, require_unicode

Learner = Callable[[Iterator[str], int, Mapping[Role, str]], tokenizers.Tokenizer]

SPECIALS: Mapping[Role, str] = {"pad": "<pad>", "bos": "<start>", "eos": "<end>", "unk": "<unk>", "mask": "<mask>"}

# A word or a run of signs, each with the space before it; other white space by itself. Nothing is lost, and since
# letters and signs never share a token, no text can turn into a special token such as <pad>.
_WORD = r" ?(?:\w+|[^\w\s]+)|\s"
_SIGNS = r"[\W_]+"
_SPECIAL = re.compile(r"[<\[]\S*\w\S*[>\]]")
_BYTE_VALUES = 256
_ONCE = 2  # a merge seen less often than this would only memorize a text
_WORD_START = "\ue000"  # for private use, so that BERT's normalizer has dropped it from any text


def learn_tokenizer(
    texts: Iterable[str],
    kind: TokenizerKind,
    vocab: int = 8000,
    *,
    specials: Mapping[Role, str] = SPECIALS,
    lowercase: bool = False,
) -> Tokenizer:
    """Learn a tokenizer of at most `vocab` tokens; the special ones come first, in the order given.

    The same texts give the same tokenizer. `lowercase` is for WordPiece alone, where it is usual.
    """
    if kind not in _LEARNERS:
        raise TokenizerError(f"kind is {kind!r}, wanted one of {', '.join(_LEARNERS)}")
    if lowercase and kind != "wordpiece":
        raise TokenizerSettingError(f"lowercase is for wordpiece, and kind is {kind}")
    _check_specials(specials, kind)
    learn = partial(_learn_wordpiece, lowercase=True) if lowercase else _LEARNERS[kind]
    with guarded("learning a tokenizer"):
        inner = learn(_checked(texts), vocab, specials)
    if inner.get_vocab_size() == len(specials):
        raise TokenizerError("the texts hold nothing but white space")
    return Tokenizer(inner, specials)


def with_last_eos(tokenizer: Tokenizer, token: str = "<|endoftext|>") -> Tokenizer:
    """The tokenizer with a new EOS that has the highest id, as CLIP has it, and BOS and EOS around each text."""
    inner = tokenizers.Tokenizer.from_str(tokenizer._inner.to_str())
    inner.add_special_tokens([token])
    found = Tokenizer(inner, {**tokenizer.roles, "eos": token}, tokenizer.use)
    return found.with_template(TextTemplate((found.required("bos"),), (found.required("eos"),)))


def _check_specials(specials: Mapping[Role, str], kind: TokenizerKind) -> None:
    for token in specials.values():
        if not _SPECIAL.fullmatch(token):
            raise TokenizerError(f"special token is {token!r}, wanted a word in brackets such as <pad> or [PAD]")
    if len(set(specials.values())) < len(specials):
        raise TokenizerError(f"special tokens are {', '.join(specials.values())}, wanted each one once")
    if kind != "bpe" and "unk" not in specials:
        raise TokenizerError(f"specials have no unk token, which {kind} needs")


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not empty, long ones in pieces."""
    if isinstance(texts, str):
        raise TokenizerError("texts is one string, wanted several")

    def each() -> Iterator[str]:
        for number, text in enumerate(texts):
            require_unicode(text, f"text {number}")
            yield from filter(None, pieces(text))

    checked = each()
    first = next(checked, None)
    if first is None:
        raise TokenizerError("no text to learn from")
    return itertools.chain([first], checked)


def _require_room(vocab: int, specials: Mapping[Role, str], alphabet: int, of: str = "characters") -> None:
    least = len(specials) + alphabet
    if vocab < least:
        few = f"{least}: {len(specials)} special tokens and {alphabet} {of}"
        raise TokenizerSettingError(f"vocab_size is {vocab}, wanted at least {few}")


def _learn_characters(texts: Iterator[str], vocab: int, specials: Mapping[Role, str]) -> tokenizers.Tokenizer:
    alphabet: set[str] = set()
    for text in texts:
        alphabet.update(text)
    _require_room(vocab, specials, len(alphabet))
    tokens = [*specials.values(), *sorted(alphabet)]
    model = models.WordLevel({token: id for id, token in enumerate(tokens)}, specials["unk"])
    return _assembled(model, pre_tokenizers.Split("", "isolated"), decoders.Fuse())


def _learn_words(texts: Iterator[str], vocab: int, specials: Mapping[Role, str]) -> tokenizers.Tokenizer:
    _require_room(vocab, specials, 1, "words")
    inner = _assembled(models.WordLevel(unk_token=specials["unk"]), *_with_spaces())
    trainer = trainers.WordLevelTrainer(vocab_size=vocab, special_tokens=[*specials.values()], show_progress=False)
    inner.train_from_iterator(texts, trainer)
    return inner


def _learn_plain_words(texts: Iterator[str], vocab: int, specials: Mapping[Role, str]) -> tokenizers.Tokenizer:
    # Lowercase, with a space in place of whatever is not a letter or a digit: a word is one token wherever it stands.
    _require_room(vocab, specials, 1, "words")
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=specials["unk"]))
    inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(Regex(_SIGNS), " ")])
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=vocab, special_tokens=[*specials.values()], show_progress=False)
    inner.train_from_iterator(texts, trainer)
    return inner


def _learn_bpe(texts: Iterator[str], vocab: int, specials: Mapping[Role, str]) -> tokenizers.Tokenizer:
    _require_room(vocab, specials, _BYTE_VALUES, "bytes")
    inner = _assembled(models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=_ONCE,
        special_tokens=[*specials.values()],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return inner


def _learn_wordpiece(
    texts: Iterator[str], vocab: int, specials: Mapping[Role, str], *, lowercase: bool = False
) -> tokenizers.Tokenizer:
    # The library's own WordPiece trainer numbers pieces in an order that changes from run to run. It is BPE with marked
    # pieces, so BPE learns here, on words that begin with a mark, and pieces are numbered and renamed afterwards.
    words = pre_tokenizers.BertPreTokenizer()
    marked = pre_tokenizers.Metaspace(_WORD_START, prepend_scheme="always", split=False)
    normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=lowercase)
    learner = _assembled(models.BPE(), pre_tokenizers.Sequence([words, marked]), decoders.Fuse(), normalizer)
    learner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2 * vocab, min_frequency=_ONCE, show_progress=False)
    )
    ids = learner.get_vocab()
    learned = sorted(ids, key=ids.__getitem__)
    alphabet = [token for token in learned if len(token) == 1 and token != _WORD_START]
    # Signs stand alone wherever they are, so they never go on a word.
    inside = [f"##{character}" for character in alphabet if len(words.pre_tokenize_str(f"a{character}")) == 1]
    _require_room(vocab, specials, len(alphabet) + len(inside), "pieces of one character")
    merged = [token[1:] if token.startswith(_WORD_START) else f"##{token}" for token in learned if len(token) > 1]
    tokens = list(dict.fromkeys([*specials.values(), *alphabet, *inside, *merged]))[:vocab]
    model = models.WordPiece({token: id for id, token in enumerate(tokens)}, unk_token=specials["unk"])
    return _assembled(model, words, decoders.WordPiece(), normalizer)


def _learn_unigram(texts: Iterator[str], vocab: int, specials: Mapping[Role, str]) -> tokenizers.Tokenizer:
    inner = _assembled(models.Unigram(), *_with_spaces())
    alphabet = {" "}

    def seen() -> Iterator[str]:
        for text in texts:
            alphabet.update(text)
            yield text

    trainer = trainers.UnigramTrainer(
        vocab_size=vocab, special_tokens=[*specials.values()], unk_token=specials["unk"], show_progress=False
    )
    try:
        inner.train_from_iterator(seen(), trainer)
    except Exception:
        _require_room(vocab, specials, len(alphabet))
        raise
    _require_room(vocab, specials, len(alphabet))
    learned = json.loads(inner.to_str())["model"]["vocab"][len(specials) :]
    scored = _settled([(piece, score) for piece, score in learned], vocab - len(specials))
    special = [(token, 0.0) for token in specials.values()]
    inner.model = models.Unigram(special + scored, list(specials).index("unk"), byte_fallback=False)
    return inner


def _settled(scored: Sequence[tuple[str, float]], room: int) -> list[tuple[str, float]]:
    """Pieces in an order, and with scores, that do not change from run to run, and no more of them than asked for.

    The trainer adds up in a random order, which rounding hides. It gives characters that no piece
    needs the lowest score, each a ten-thousandth above the other, at random too: here all the same.
    """
    lowest = min(score for _, score in scored)
    rare = lowest + 1e-4 * len(scored)
    settled = [(piece, round(lowest if len(piece) == 1 and score < rare else score, 4)) for piece, score in scored]
    ordered = sorted(settled, key=lambda item: (len(item[0]) > 1, -item[1], item[0]))
    return sorted(ordered[:room], key=lambda item: (-item[1], item[0]))


def _with_spaces() -> tuple[pre_tokenizers.PreTokenizer, decoders.Decoder, normalizers.Normalizer]:
    # A space is put before the text and taken away again, so that a word is the same token wherever it stands.
    words = pre_tokenizers.Split(Regex(_WORD), "isolated")
    return words, decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)]), normalizers.Prepend(" ")


def _assembled(
    model: models.Model,
    words: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder,
    normalizer: normalizers.Normalizer | None = None,
) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer, inner.decoder = words, decoder
    if normalizer is not None:
        inner.normalizer = normalizer
    return inner


_LEARNERS: dict[TokenizerKind, Learner] = {
    "characters": _learn_characters,
    "words": _learn_words,
    "plain_words": _learn_plain_words,
    "bpe": _learn_bpe,
    "wordpiece": _learn_wordpiece,
    "unigram": _learn_unigram,
}
