"""The same answers everywhere: a model as it was trained, its folder opened again, and transformers on that folder.

`python -m tests.parity.answers docs/parity.md` measures them on 200 texts and writes the table into the page.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import glassformer as gf
from glassformer.data.phrase_book import phrase_book
from glassformer.decoding.config import GenerationConfig
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

Task = Literal["gpt", "translate", "masked", "classify"]
NEW_TOKENS = 8
HEADING = "## The same answers"

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SPREAD = {"initializer_range": 0.4}  # so that random weights give answers that differ from text to text
PAIR_SIZES = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "init_std": 0.4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 128,
}  # fmt: skip


@dataclass(frozen=True)
class Public:
    """A folder as a public checkpoint has it: made by transformers, with the special tokens of its family."""

    name: str
    task: Task
    specials: str  # in the order of their ids
    template: str
    model: Callable[[int], Any]
    roles: dict[str, str]


def _auto(kind: str, config: str, **fields: object) -> Callable[[int], Any]:
    def make(vocab: int) -> Any:  # noqa: ANN401 - transformers has no types for it
        torch.manual_seed(0)
        settings = getattr(transformers, config)(vocab_size=vocab, **fields)
        return getattr(transformers, kind)(settings).eval()

    return make


_BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
_ROBERTA = {
    "bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>",
    "cls_token": "<s>", "sep_token": "</s>",
}  # fmt: skip
_LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_PADDED = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_PLACES = {"max_position_embeddings": 128}
_ENCODER = {**SIZES, **SPREAD, **_PLACES}
_DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, **SPREAD, **_PLACES}
_NAMES = {"id2label": {0: "zero", 1: "one", 2: "two"}, "label2id": {"zero": 0, "one": 1, "two": 2}}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}

PUBLIC = [
    Public(
        "GPT-2", "gpt", "<|endoftext|>", "$A",
        _auto("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, n_positions=128, **SPREAD,
              bos_token_id=0, eos_token_id=0), dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
    ),
    Public("Llama", "gpt", "<unk> <s> </s>", "<s> $A", _auto("LlamaForCausalLM", "LlamaConfig", **_ENCODER), _LLAMA),
    Public(
        "Mistral", "gpt", "<unk> <s> </s>", "<s> $A",
        _auto("MistralForCausalLM", "MistralConfig", **_ENCODER, num_key_value_heads=2, sliding_window=6), _LLAMA,
    ),
    Public(
        "Qwen2", "gpt", "<|endoftext|> <|im_start|> <|im_end|>", "$A",
        _auto("Qwen2ForCausalLM", "Qwen2Config", **_ENCODER, num_key_value_heads=2, eos_token_id=[2, 0]),
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    ),
    Public("BERT, masks", "masked", "[PAD] [UNK] [CLS] [SEP] [MASK]", "[CLS] $A [SEP]",
           _auto("BertForMaskedLM", "BertConfig", **_ENCODER), _BERT),
    Public("BERT", "classify", "[PAD] [UNK] [CLS] [SEP] [MASK]", "[CLS] $A [SEP]",
           _auto("BertForSequenceClassification", "BertConfig", **_ENCODER, **_NAMES), _BERT),
    Public("DistilBERT", "classify", "[PAD] [UNK] [CLS] [SEP] [MASK]", "[CLS] $A [SEP]",
           _auto("DistilBertForSequenceClassification", "DistilBertConfig", **_DISTIL, **_NAMES), _BERT),
    Public("ALBERT", "classify", "[PAD] [UNK] [CLS] [SEP] [MASK]", "[CLS] $A [SEP]",
           _auto("AlbertForSequenceClassification", "AlbertConfig", **_ENCODER, embedding_size=16, **_NAMES), _BERT),
    Public("RoBERTa, masks", "masked", "<s> <pad> </s> <unk> <mask>", "<s> $A </s>",
           _auto("RobertaForMaskedLM", "RobertaConfig", **SIZES, **SPREAD, max_position_embeddings=130,
                 type_vocab_size=1), _ROBERTA),
    Public("RoBERTa", "classify", "<s> <pad> </s> <unk> <mask>", "<s> $A </s>",
           _auto("RobertaForSequenceClassification", "RobertaConfig", **SIZES, **SPREAD, max_position_embeddings=130,
                 type_vocab_size=1, **_NAMES), _ROBERTA),
    Public("T5", "translate", "<pad> </s> <unk>", "$A </s>",
           _auto("T5ForConditionalGeneration", "T5Config", **_T5, initializer_factor=3.0), _PADDED),
    Public("Marian", "translate", "</s> <unk> <pad>", "$A </s>",
           _auto("MarianMTModel", "MarianConfig", **PAIR_SIZES, eos_token_id=0, pad_token_id=2,
                 decoder_start_token_id=2, forced_eos_token_id=None), _PADDED),
    Public("BART", "translate", "<s> <pad> </s> <unk> <mask>", "<s> $A </s>",
           _auto("BartForConditionalGeneration", "BartConfig", **PAIR_SIZES, decoder_start_token_id=2,
                 forced_eos_token_id=None), _ROBERTA),
]  # fmt: skip

SMALL = {
    "tokenizer.vocab_size": 400, "model.dim": 32, "model.heads": 4, "model.layers": 2, 
    "recipe.warmup_steps": 3, "recipe.learning_rate": 0.01, "run.device": "cpu", "run.precision": "float32",
}  # fmt: skip
_RUNNING = {"model.context": 64, "data.max_length": 24, "data.batch_size": 8, "data.validation_fraction": 0.1}
_TRANSLATE = {"data.tokens_per_batch": 512, "data.max_length": 48, "data.validation_fraction": 0.1, "data.num_beams": 1}
_LIKE_MARIAN = {"model.positions": "halves", "model.norm_first": False, "model.output_bias": True, "model.ffn_dim": 64}
TRAINED: dict[str, tuple[Task, dict[str, object]]] = {
    "gpt": ("gpt", _RUNNING),
    "gpt, Llama": ("gpt", {**_RUNNING, "model.family": "llama", "model.ffn_dim": 64}),
    "gpt, modern": ("gpt", {**_RUNNING, "model.family": "modern"}),
    "masked": ("masked", {**_RUNNING, "model.ffn_dim": 64}),
    "classify": ("classify", {"model.context": 64, "data.max_length": 16, "data.batch_size": 8, "model.ffn_dim": 64}),
    "translate": ("translate", {**_TRANSLATE, "model.context": 64, "model.ffn_dim": 64}),
    "translate, Marian": ("translate", {**_TRANSLATE, **_LIKE_MARIAN, "model.context": 64}),
    "translate, T5": ("translate", {**_TRANSLATE, "model.family": "t5", "model.head_dim": 8, "model.ffn_dim": 64}),
}


def sentences(count: int) -> list[str]:
    """English sentences that differ."""
    return list(islice(dict.fromkeys(english for english, _ in phrase_book(4 * count + 40, seed=7)), count))


def make_public(public: Public, folder: Path) -> Path:
    """Write a public folder, by transformers alone."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    specials = public.specials.split()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    given = {"special_tokens": specials, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=400, **given)
    inner.train_from_iterator(sentences(200), trainer)
    pairs = [(token, inner.token_to_id(token)) for token in specials]
    inner.post_processor = processors.TemplateProcessing(single=public.template, pair="$A $B", special_tokens=pairs)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=64, **public.roles)
    wrapped.save_pretrained(folder)
    public.model(inner.get_vocab_size()).save_pretrained(folder)
    return folder


def make_run(name: str, folder: Path, steps: int = 80) -> "gf.LoadedModel":
    """Train a small run and give it as it is when training ends, before its folder is opened."""
    task, settings = TRAINED[name]
    data = folder.parent / "data"
    data.mkdir(exist_ok=True)
    lines = sentences(80)
    if task == "translate":
        path = data / "pairs.tsv"
        path.write_text("".join(f"{a}\t{b}\n" for a, b in phrase_book(80, seed=3)))
    elif task == "classify":
        path = data / "labels.tsv"
        path.write_text("".join(f"{('even', 'odd')[len(line) % 2]}\t{line}\n" for line in lines))  # hard to learn
    else:
        path = data / "text.txt"
        path.write_text("\n".join(lines))
    run = gf.train(task, {**SMALL, "recipe.steps": steps, "data.path": str(path), **settings}, out=folder)
    return gf.LoadedModel(run.model.eval(), run.tokenizer, run.labels)


def answers(loaded: "gf.LoadedModel", task: Task, texts: Sequence[str]) -> list[str]:
    """The answers of a native model."""
    model, tokenizer = loaded.model, loaded.tokenizer
    assert tokenizer is not None
    if task in ("gpt", "translate"):
        config = GenerationConfig(max_new_tokens=NEW_TOKENS)
        return [written.text for written in gf.generate(model, tokenizer, texts, config)]
    if task == "classify":
        found = [loaded.classify(text) for text in texts]
        return [f"{answer.label} {answer.probability:.3f}" for answer in found]
    return [_fill(model, tokenizer, ids) for ids in tokenizer.encode_inputs(texts, tokenizer.use.max_length)]


@torch.no_grad()
def _fill(model: Model, tokenizer: Tokenizer, ids: list[int]) -> str:
    where = len(ids) // 2
    ids = [*ids[:where], tokenizer.required("mask"), *ids[where + 1 :]]
    probability, best = model(torch.tensor([ids]))[0, where].softmax(-1).max(-1)
    return f"{int(best)} {float(probability):.3f}"


def their_answers(folder: Path, task: Task, texts: Sequence[str]) -> list[str]:
    """What transformers answers, from nothing but the folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if task == "classify":
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
        ask = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        return [f"{found['label']} {found['score']:.3f}" for found in ask(list(texts), truncation=True)]
    kinds = {"gpt": "AutoModelForCausalLM", "translate": "AutoModelForSeq2SeqLM", "masked": "AutoModelForMaskedLM"}
    model = getattr(transformers, kinds[task]).from_pretrained(folder).eval()
    return [_their_answer(model, tokenizer, task, text) for text in texts]


def _their_answer(model: Any, tokenizer: Any, task: Task, text: str) -> str:  # noqa: ANN401 - transformers has no types
    ids = tokenizer(text, truncation=task == "masked", return_tensors="pt").input_ids
    with torch.no_grad():
        if task == "masked":
            where = ids.shape[1] // 2
            ids[0, where] = tokenizer.mask_token_id
            probability, best = model(input_ids=ids).logits[0, where].softmax(-1).max(-1)
            return f"{int(best)} {float(probability):.3f}"
        config = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": 1}
        written = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **config)[0]
    new = written[ids.shape[1] :] if task == "gpt" else written
    return tokenizer.decode(new, skip_special_tokens=True)


@dataclass(frozen=True)
class Row:
    """How many answers of the model are the same after reopening, and in transformers where it reads the format."""

    name: str
    task: Task
    texts: int
    different: int
    reopened: int
    theirs: int | None


def compare(name: str, task: Task, first: "gf.LoadedModel", folder: Path, texts: Sequence[str]) -> Row:
    """One row of the table."""
    ours, again = answers(first, task, texts), answers(gf.load(folder), task, texts)
    opens = '"architectures"' in (folder / "config.json").read_text()
    theirs = their_answers(folder, task, texts) if opens else None
    same = [sum(a == b for a, b in zip(ours, other, strict=True)) for other in (again, *([theirs] if theirs else []))]
    return Row(name, task, len(texts), len(set(ours)), same[0], same[1] if theirs else None)


def rows(count: int) -> Iterator[Row]:
    """The whole table, on so many texts."""
    texts = sentences(count)
    with tempfile.TemporaryDirectory() as scratch:
        for number, name in enumerate(TRAINED):
            folder = Path(scratch) / f"run-{number}"
            yield compare(f"trained: {name}", TRAINED[name][0], make_run(name, folder, 500), folder, texts)
        for number, public in enumerate(PUBLIC):
            folder = make_public(public, Path(scratch) / f"public-{number}")
            copy = Path(scratch) / f"copy-{number}"
            first = gf.load(folder)
            gf.save(first.model, copy, first.tokenizer, first.labels, like=first.hf_model)
            yield compare(f"public: {public.name}", public.task, first, copy, texts)


def main(page: Path, count: int = 200) -> None:
    """Write the table under its heading at the end of a page."""
    lines = [
        HEADING, "",
        f"Made by `python -m tests.parity.answers docs/parity.md`, on {count} sentences of the phrase book. A model",
        "answers from memory, from its folder opened again (a public one: written once more), and in `transformers`,",
        "which is given the texts alone. An answer is a greedy continuation or translation, or a class or the token in",
        "place of a mask, with its probability to three digits. Public folders are written by `transformers`, with",
        "random weights.",
        "",
        "| model | task | different answers | reopened folder | transformers |",
        "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in rows(count):
        theirs = "native format" if row.theirs is None else f"{row.theirs} of {row.texts}"
        lines.append(f"| {row.name} | {row.task} | {row.different} | {row.reopened} of {row.texts} | {theirs} |")
        print(lines[-1], flush=True)
    before = page.read_text().partition(HEADING)[0].rstrip()
    page.write_text(before + "\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
