"""Extractive answers: the same span and logits in training, after reopening, and in transformers."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.stories import stories
from glassformer.decoding.answers import Answer
from glassformer.models.encoder import EncoderConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.questions import encode_question
from glassformer.text.tokenizer import Tokenizer

transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()

SOME = slice(0, 24, 3)  # of the questions of the test data
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SPREAD = {"initializer_range": 0.4}  # so that random weights give answers that differ from text to text
FAMILIES: dict[str, tuple[str, str, dict[str, object]]] = {
    "BERT": ("BertForQuestionAnswering", "BertConfig", {**SIZES, **SPREAD, "max_position_embeddings": 128}),
    "DistilBERT": (
        "DistilBertForQuestionAnswering",
        "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, **SPREAD, "max_position_embeddings": 128},
    ),
    "ALBERT": (
        "AlbertForQuestionAnswering",
        "AlbertConfig",
        {**SIZES, **SPREAD, "embedding_size": 16, "max_position_embeddings": 128},
    ),
    "RoBERTa": (
        "RobertaForQuestionAnswering",
        "RobertaConfig",
        {**SIZES, **SPREAD, "max_position_embeddings": 130, "type_vocab_size": 1, "pad_token_id": 1},
    ),
}


def public_folder(name: str, folder: Path) -> Path:
    """A folder as transformers writes it, with the tokenizer that its family has."""
    words = sorted({word for each in stories("test")[:200] for word in f"{each.question} {each.context}".split()})
    letters = sorted({character for word in words for character in word.strip(".?")} | set("Zoëüö🗝.?"))
    specials = "<s> <pad> </s> <unk> <mask>" if name == "RoBERTa" else "[PAD] [UNK] [CLS] [SEP] [MASK]"
    tokens = [
        *specials.split(),
        *letters,
        *(f"##{letter}" for letter in letters),
        *(word.strip(".?") for word in words),
    ]
    vocab = {token: id for id, token in enumerate(dict.fromkeys(tokens))}
    roberta = name == "RoBERTa"
    first, last, unk = ("<s>", "</s>", "<unk>") if roberta else ("[CLS]", "[SEP]", "[UNK]")
    inner = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unk))
    inner.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pair = f"{first} $A {last} {last} $B {last}" if roberta else f"{first} $A {last} $B:1 {last}:1"
    inner.post_processor = processors.TemplateProcessing(
        f"{first} $A {last}", pair, [(token, vocab[token]) for token in (first, last)]
    )
    roles = {"cls_token": first, "sep_token": last, "unk_token": unk, "pad_token": "<pad>" if roberta else "[PAD]"}
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if name in ("BERT", "ALBERT") else [])
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **roles, model_input_names=names)
    theirs.model_max_length = 128
    theirs.save_pretrained(folder)
    kind, config, fields = FAMILIES[name]
    torch.manual_seed(0)
    getattr(transformers, kind)(getattr(transformers, config)(vocab_size=len(vocab), **fields)).save_pretrained(folder)
    return folder


def their_logits(folder: Path, question: str, context: str) -> tuple[Any, Any, torch.Tensor]:
    """The encoding of transformers and its logits of start and end."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0]
    with torch.no_grad():
        found = model(**encoded)
    return encoded, offsets, torch.cat([found.start_logits, found.end_logits])


def their_answer(folder: Path, question: str, context: str) -> tuple[int, int]:
    """The characters of the best span as transformers' logits have it, by looking at every span."""
    encoded, offsets, (start, end) = their_logits(folder, question, context)
    inside = [at for at, which in enumerate(encoded.sequence_ids(0)) if which == 1]
    spans = [(float(start[s] + end[t]), s, t) for s in inside for t in inside if s <= t < s + 30]
    _, first, last = max(spans, key=lambda span: span[0])
    return int(offsets[first][0]), int(offsets[last][1])


def asked() -> list[tuple[str, str]]:
    """Questions with their contexts."""
    return [(each.question, each.context) for each in stories("test")[SOME]]


def same(one: Answer, other: Answer) -> bool:
    return (one.answer, one.start, one.end) == (other.answer, other.start, other.end)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_public_model_answers_as_in_transformers_and_after_saving(name: str, tmp_path: Path) -> None:
    folder = public_folder(name, tmp_path / "public")
    loaded = gf.load(folder)
    questions, contexts = map(list, zip(*asked(), strict=True))
    answers = loaded.answer(questions, contexts)
    assert len({answer.answer for answer in answers}) > 1, "one answer to everything tells nothing"
    loaded.save(tmp_path / "saved")
    for (question, context), answer in zip(asked(), answers, strict=True):
        for where in (folder, tmp_path / "saved"):
            assert their_answer(where, question, context) == (answer.start, answer.end)
    again = gf.load(tmp_path / "saved").answer(questions, contexts)
    assert all(map(same, answers, again))


def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    folder = public_folder("BERT", tmp_path)
    loaded, (question, context) = gf.load(folder), asked()[0]
    encoded, _, wanted = their_logits(folder, question, context)
    (window,) = encode_question(loaded.required_tokenizer(), question, context)
    assert (
        window.ids == encoded["input_ids"][0].tolist() and window.token_types == encoded["token_type_ids"][0].tolist()
    )
    found = loaded.model(torch.tensor([window.ids]), None, torch.tensor([window.token_types]))
    assert_close(found[0], wanted, rtol=1e-4, atol=1e-4)


def test_long_contexts_give_the_pipeline_s_probability(tmp_path: Path) -> None:
    """The best span over windows has the probability that the formula of transformers' pipeline gives its window."""
    folder = public_folder("BERT", tmp_path)
    question = asked()[0][0]
    context = "  ".join(context for _, context in asked()) + "  Zoë  gave the\tkey to Müller 🗝."
    answer = gf.load(folder).answer(question, context)
    assert answer.start is not None and context[answer.start : answer.end] == answer.answer
    tokenizer = gf.load(folder).required_tokenizer()
    windows = encode_question(tokenizer, question, context, 128)
    assert len(windows) > 2
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    best = 0.0
    for window in windows:
        with torch.no_grad():
            found = model(torch.tensor([window.ids]), token_type_ids=torch.tensor([window.token_types]))
        inside = torch.zeros(len(window.ids), dtype=torch.bool)
        inside[window.first : window.first + len(window.offsets)] = True
        allowed = inside.clone()
        allowed[0] = True
        start, end = (
            logits[0].masked_fill(~allowed, -torch.inf).softmax(0) for logits in (found.start_logits, found.end_logits)
        )
        scores = (start[:, None] * end).triu().tril(29)
        best = max(best, float(scores[inside][:, inside].max()))
    assert answer.probability == pytest.approx(best, rel=1e-4)


def test_a_trained_run_answers_the_same_everywhere(tmp_path: Path) -> None:
    tiny = {"recipe.steps": 3, "recipe.warmup_steps": 1, "run.device": "cpu", "run.precision": "float32"}
    shape = {"model.dim": 16, "model.layers": 1, "model.heads": 2, "model.ffn_dim": 16, "tokenizer.vocab_size": 400}
    rows = [f"{each.question}\t{each.context}\t{each.answers[0]}" for each in stories("test")[SOME]]
    (tmp_path / "data.tsv").write_text("\n".join(rows), encoding="utf-8")
    data = {"data.path": str(tmp_path / "data.tsv"), "data.max_length": 64, "data.validation_fraction": 0.3}
    run = gf.train("answer", {**tiny, **shape, **data, "data.batch_size": 4}, out=tmp_path / "run")
    live = gf.LoadedModel(run.model.eval(), run.tokenizer)
    both = [q for q, _ in asked()], [c for _, c in asked()]
    answers, again = live.answer(*both), gf.load(tmp_path / "run").answer(*both)
    assert all(map(same, answers, again))
    gf.load(tmp_path / "run").save(tmp_path / "hf", format="hf")
    assert all(map(same, answers, gf.load(tmp_path / "hf").answer(*both)))
    encoded, _, logits = their_logits(tmp_path / "hf", "Who is Ana?", "Ana  is here.")
    (window,) = encode_question(run.tokenizer, "Who is Ana?", "Ana  is here.", 64)
    assert encoded["input_ids"][0].tolist() == window.ids
    assert encoded["token_type_ids"][0].tolist() == window.token_types
    found = gf.load(tmp_path / "hf").model(torch.tensor([window.ids]), None, torch.tensor([window.token_types]))
    assert_close(found[0], logits, rtol=1e-4, atol=1e-4)
    recorded: list[Any] = []
    metrics = gf.evaluate(tmp_path / "run", str(tmp_path / "data.tsv"), record=recorded.append)
    assert [each["answer"] for each in recorded] == [each.answer for each in answers]
    assert vars(metrics)["questions"] == len(rows)


def test_white_space_and_unicode_come_back_exactly() -> None:
    context = "Zoë\u00a0 took   the 🗝  from\tMüller."
    tokenizer = learn_tokenizer([context, "Who?"], "bpe", 300).for_encoder()
    config = EncoderConfig(vocab=tokenizer.vocab_size, context=64, dim=8, layers=1, heads=2, ffn_dim=8, head="span")
    for seed in range(8):
        model = gf.build(config, seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
        answer = gf.LoadedModel(model, Tokenizer(tokenizer._inner, tokenizer.roles)).answer("Who?", context)
        assert answer.start is not None and context[answer.start : answer.end] == answer.answer
        assert answer.answer == answer.answer.strip() and 0 <= answer.probability <= 1
