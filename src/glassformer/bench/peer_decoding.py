"""Decoding by Hugging Face and by CTranslate2, with random weights."""

import tempfile
from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from glassformer.bench.measure import Step
from glassformer.bench.peers import load_module, load_package
from glassformer.models.gpt import GPTConfig
from glassformer.models.seq2seq import Seq2SeqConfig

HUGGING_FACE = "Hugging Face"
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None}  # its defaults may lie beyond the vocabulary


def hugging_face_model(config: GPTConfig) -> nn.Module:
    """Hugging Face's GPT-2 of these sizes."""
    library, rate = load_package("transformers"), config.dropout
    sizes: dict[str, int | None] = {
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_embd": config.dim,
        "n_positions": config.context,
    }
    sizes["n_inner"] = config.ffn_dim
    drops = {"resid_pdrop": rate, "embd_pdrop": rate, "attn_pdrop": rate}
    return library.GPT2LMHeadModel(library.GPT2Config(**sizes, vocab_size=config.vocab, **drops, **NO_TOKENS))


def hugging_face_generator(config: GPTConfig | Seq2SeqConfig, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Hugging Face's GPT-2 or Marian of these sizes."""
    if isinstance(config, GPTConfig):
        return hugging_face_model(config).to(device, dtype).eval()
    library = load_package("transformers")
    sizes = {"d_model": config.dim, "max_position_embeddings": config.context, "vocab_size": config.vocab}
    for side in ("encoder", "decoder"):
        each = {"layers": config.layers, "attention_heads": config.heads, "ffn_dim": config.ffn_dim}
        sizes |= {f"{side}_{key}": value for key, value in each.items()}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    none = {"forced_eos_token_id": None, "bos_token_id": None}
    return library.MarianMTModel(library.MarianConfig(**sizes, **tokens, **none)).to(device, dtype).eval()


def hugging_face_step(model: nn.Module, prompts: Sequence[Sequence[int]], new: int, **more: object) -> Step:
    """Hugging Face's `generate` of exactly this many tokens."""
    ids = torch.tensor(prompts, device=next(model.parameters()).device)
    settings = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, **more}
    generate = model.generate
    assert callable(generate)
    return lambda: generate(ids, attention_mask=torch.ones_like(ids), **settings)


def ctranslate2_step(
    model: nn.Module, sources: Sequence[Sequence[int]], beam: int, new: int, threads: int, form: str
) -> Step:
    """CTranslate2 with the weights of Hugging Face's Marian, in float32 or int8."""
    library = load_package("CTranslate2")
    converters = load_module("CTranslate2", "converters.transformers")
    config = model.config
    config.normalize_before = config.normalize_embedding = False  # pyright: ignore
    spec = converters.BartLoader.get_model_spec(converters.MarianMTLoader(), model)
    names = [str(i) for i in range(config.vocab_size)]  # pyright: ignore
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token = names[0]
    spec.validate()
    words = [[str(i) for i in row] for row in sources]
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = library.Translator(folder, "cpu", compute_type=form, intra_threads=threads)
    length = {"min_decoding_length": new, "max_decoding_length": new, "beam_size": beam}
    return partial(translator.translate_batch, words, max_batch_size=len(words), **length)
