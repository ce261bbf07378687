"""`glassformer demo`: train a translator on the built-in phrase book, use it, and show its work."""

import shlex
from typing import TYPE_CHECKING

from glassformer.cli.report import Json, MaybePath, UsageError, talk, write, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from glassformer.models.seq2seq import Seq2Seq
    from glassformer.text.tokenizer import Tokenizer

FAINT = 0.05  # attention weights below this are left out of the table
COURTESY = "You are welcome"


def demo(*, steps: int = 700, seed: int = 0, out: MaybePath = None, json: Json = False) -> None:
    """Train a small translator on the built-in phrase book, translate unseen sentences, show its attention.

    Parameters
    ----------
    steps
        Number of training steps.
    seed
        Random seed of the sentences and the initial weights.
    out
        Folder to keep the trained model in.
    """
    if steps < 1:
        raise UsageError(f"--steps is {steps}, wanted at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}, wanted 0 or more")
    if out is not None:
        from glassformer.training.run_files import require_free

        require_free(out)
    from glassformer.decoding.generate import translate
    from glassformer.training import built_in_translator
    from glassformer.training.tasks.translate import score_translations

    talk(f"drawing {built_in_translator.TRAINING:,} sentence pairs from the phrase book")
    known, unseen = built_in_translator.split_pairs(seed)
    model, tokenizer = _train(known, steps, seed)
    if out is not None:
        from glassformer.checkpoints.save import save

        save(model, out, tokenizer)
        talk(f"the model is kept in {out}")
    talk(f"translating {len(unseen)} unseen sentences")
    answers = translate(model, tokenizer, [english for english, _ in unseen])
    right = sum(answer == spanish for answer, (_, spanish) in zip(answers, unseen, strict=True))
    bleu = score_translations(answers, [spanish for _, spanish in unseen]).bleu
    (courtesy,) = translate(model, tokenizer, [COURTESY])
    some = zip(unseen[:5], answers[:5], strict=True)
    rows = [(COURTESY, courtesy, "De nada"), *((english, one, spanish) for (english, spanish), one in some)]
    if json:
        exact = right / len(unseen)
        write_json({"bleu": bleu.score, "signature": bleu.signature, "exact": exact, "translations": rows})
        return
    write_table(("English", "translation", "phrase book"), rows)
    _show_attention(model, tokenizer, unseen[0][0], answers[0])
    write(f"{right} of {len(unseen)} unseen sentences exactly right; BLEU {bleu.score:.1f} ({bleu.signature})")
    write(f"next: {_next(out)}")


def _next(out: "Path | None") -> str:
    """What to type next."""
    if out is None:
        return "`glassformer equations attention` for the formula; --out FOLDER keeps the model"
    return f'glassformer translate {shlex.quote(str(out))} "The cat is small."'


def _train(pairs: list[tuple[str, str]], steps: int, seed: int) -> "tuple[Seq2Seq, Tokenizer]":
    from glassformer.training.built_in_translator import begin_translator

    run = begin_translator(pairs, steps, seed)
    talk(f"training a translator with {run.model.parameter_count():,} parameters for {steps} steps")
    for log in run.logs:
        left = log.seconds / log.step * (steps - log.step)
        talk(f"step {log.step} of {steps}: loss {log.loss:.3f}, {log.speed:,.0f} tokens/s, {left:.0f} s left")
    return run.model, run.tokenizer


def _show_attention(model: "Seq2Seq", tokenizer: "Tokenizer", english: str, spanish: str) -> None:
    """A table of the cross-attention weights of the last block, averaged over its heads."""
    import torch

    from glassformer.probes.readout import attention_maps

    (source,), (target,) = tokenizer.encode_inputs([english]), tokenizer.encode_targets([spanish])
    inputs = {"source": torch.tensor([source]), "target": torch.tensor([[tokenizer.decoder_start, *target]])}
    weights = list(attention_maps(model, inputs).values())[-1][0].mean(0)
    columns = ["generated", *(tokenizer.token(id) for id in source)]
    rows = [
        (tokenizer.token(id), *(f"{weight:.2f}" if weight >= FAINT else "·" for weight in row))
        for id, row in zip(target, weights.tolist(), strict=False)
    ]
    write_table(columns, rows, title="attention of each generated token to the source (cross-attention, last block)")
