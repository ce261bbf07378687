"""F1, F2, F3, F6, F8: files made to harm are refused with a clear error, soon, in little memory, and nothing runs."""

import io
import json
import os
import pickle
import random
import resource
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.llama2c import Llama2C
from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.tensor_files import TensorFiles
from glassformer.checkpoints.vectors import load_vectors
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.models.gpt import GPTConfig
from tests.checkpoints.parity_configs import PARITY_CONFIGS, shaken

TINY = GPTConfig(vocab=3, context=2, dim=2, layers=1, heads=1, ffn_dim=2)
MEBIBYTE = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(shaken(TINY), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def nothing_beside(tmp_path: Path) -> Iterator[None]:
    """Whatever a test does, nothing is written beside the folders it made itself."""
    outside = tmp_path.parent
    before = set(os.listdir(outside))
    yield
    assert set(os.listdir(outside)) <= before | {tmp_path.name}


def refused(path: Path, most_seconds: float = 1.0, most_memory: int = 64 * MEBIBYTE) -> str:
    """The one line with which a path is refused, within the time and the memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(GlassformerError) as caught:
            load(path)
        assert time.process_time() - start < most_seconds
        assert tracemalloc.get_traced_memory()[1] < most_memory
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 2000
    return text


class Gadget:
    """Unpickled, it touches a file."""

    def __init__(self, call: Callable[..., object], *args: object) -> None:
        self.call = call
        self.args = args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call, self.args


def pickles(canary: Path) -> Iterator[bytes]:
    """Twenty pickles that touch a file: five ways, as old and new protocols, and inside archives."""
    touch = f"open({str(canary)!r}, 'w')"
    ways = [
        Gadget(os.system, f"touch {canary}"),
        Gadget(eval, touch),
        Gadget(exec, touch),
        Gadget(os.mkdir, str(canary)),
        Gadget(open, str(canary), "w"),
    ]
    for way in ways:
        for protocol in (2, 4):
            data = pickle.dumps({"a.weight": way}, protocol)
            yield data
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w") as file:
                file.writestr("archive/data.pkl", data)
                file.writestr("archive/version", "3")
            yield archive.getvalue()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "model.safetensors", "vectors.txt"])
def test_no_pickle_runs_and_the_way_out_is_told(name: str, folder: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (folder / "model.safetensors").unlink()
    for number, data in enumerate(pickles(canary)):
        path = folder / name
        path.write_bytes(data)
        for text in (refused(path), refused(folder) if name != "vectors.txt" else ""):
            assert not text or ("weights_only=True" in text and "save_file" in text), number
        with pytest.raises(CheckpointError, match="pickle"):
            load_vectors(path)
        assert not canary.exists()
    assert number == 19


def test_the_way_out_of_a_pickle_works(folder: Path) -> None:
    from safetensors.torch import load_file

    path = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), path)
    (folder / "model.safetensors").unlink()
    line = refused(folder).partition('python -c "')[2].removesuffix('"')
    exec(line)
    assert torch.equal(load(folder).model.embedding.weight, shaken(TINY).embedding.weight)


def header(entries: object, data: bytes = b"") -> bytes:
    """A safetensors file with this header."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("length", [0x280, 0x380, 0x480, 0x580, 0x8B1F])
def test_a_header_whose_length_looks_like_a_pickle_is_read(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(header(json.dumps({"a": entry([1])}).encode().ljust(length), FOUR))
    assert TensorFiles(path).shapes == {"a": (1,)}


def entry(shape: list[object], begin: int = 0, end: int = 4, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


FOUR = b"\0" * 4
BAD_FILES = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "length alone": struct.pack("<Q", 2),
    "endless header": struct.pack("<Q", 2**62) + b"{}",
    "header beyond the file": struct.pack("<Q", 1000) + b"{}",
    "header of nothing": struct.pack("<Q", 0),
    "no JSON": header(b"hello there"),
    "JSON of another kind": header([1, 2]),
    "nested without end": header(b"[" * 100_000),
    "not UTF-8": header(b'{"\xff": 1}'),
    "name twice": header(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        FOUR,
    ),
    "unknown type": header({"a": entry([1], dtype="F128")}, FOUR),
    "type is a number": header({"a": entry([1], dtype=7)}, FOUR),
    "shape larger than data": header({"a": entry([2])}, FOUR),
    "huge shape": header({"a": entry([2**40, 2**40])}, FOUR),
    "shape of nothing": header({"a": entry([0, 2**40], 0, 0)}),
    "negative shape": header({"a": entry([-1])}, FOUR),
    "shape of words": header({"a": entry(["one"])}, FOUR),
    "shape of true": header({"a": entry([True])}, FOUR),
    "offsets overlap": header({"a": entry([1]), "b": entry([1])}, FOUR),
    "offsets back to front": header({"a": entry([1], 4, 0)}, FOUR),
    "a hole": header({"a": entry([1], 4, 8)}, FOUR * 2),
    "more data": header({"a": entry([1])}, FOUR * 2),
    "metadata of numbers": header({"__metadata__": {"a": 1}, "a": entry([1])}, FOUR),
    "path for a name": header({"../../etc/x": entry([1])}, FOUR),
    "absolute name": header({"/etc/passwd": entry([1])}, FOUR),
    "NUL in a name": header({"a\0b": entry([1])}, FOUR),
    "long name": header({"a" * 301: entry([1])}, FOUR),
    "no name": header({"": entry([1])}, FOUR),
    "names of empty tensors": header({f"t{i}": entry([0, 2**40], 0, 0) for i in range(1000)}),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(name: str, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(BAD_FILES[name])
    assert str(folder) in refused(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    {"name twice": "twice", "path for a name": "not a valid tensor name", "NUL in a name": "not a valid"}.items(),
)
def test_what_the_library_takes_is_refused_by_us(name: str, says: str, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(BAD_FILES[name])
    assert says in refused(folder)


def test_a_million_tensors_are_refused_before_they_are_read(folder: Path) -> None:
    one = b'"t%07d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    text = b"{" + b",".join(one % i for i in range(1_000_000)) + b"}"
    (folder / "model.safetensors").write_bytes(header(text))
    assert "wanted at most" in refused(folder)


SIZES = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"]


@pytest.mark.parametrize("value", [10**12, 2**31 - 1, 4096, 0, -1, 1.5, "9", True, [1], {}, 10**400])
@pytest.mark.parametrize("field", SIZES)
def test_absurd_sizes_are_refused_at_once(field: str, value: object, folder: Path) -> None:
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, field: value}))
    refused(folder)


@pytest.mark.parametrize("value", [10**12, 2**27, 4096, 0, -1, 1.5, "9", True, [1]])
@pytest.mark.parametrize("field", ["vocab", "context", "dim", "layers", "heads", "hidden"])
def test_absurd_sizes_of_our_own_are_refused_at_once(field: str, value: object, tmp_path: Path) -> None:
    save(shaken(TINY), tmp_path, format="native")
    table = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**table, field: value}))
    refused(tmp_path)


HOSTILE = {
    "auto_map": {"AutoModel": "evil.Model"},
    "_attn_implementation_internal": "evil/kernel",
    "_attn_implementation": "evil/kernel",
    "trust_remote_code": True,
    "custom_pipelines": {"x": {"impl": "os.system"}},
    "text_config": {"auto_map": {"AutoModel": "evil.Model"}},
    "quantization_config": {"quant_method": "evil"},
    "activation_function": "os.system",
    "model_type": "../../evil",
    "architectures": "BertModel",
    "add_cross_attention": True,
    "id2label": {"0": "a", "2": "b"},
    "scale_attn_by_inverse_layer_idx": True,
    "rope_scaling": {"type": "dynamic", "factor": 2.0},
    "tie_word_embeddings": "yes",
    "layer_norm_epsilon": "1e-5",
}


@pytest.mark.parametrize("field", HOSTILE)
def test_hostile_fields_are_named(field: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, field: HOSTILE[field]}))
    monkeypatch.setattr("importlib.import_module", lambda *_: pytest.fail("something was imported"))
    assert field in refused(folder)


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b"{", b"[" * 100_000, b'{"n_embd": ' + b"9" * 5000 + b"}", b'{"a": 1, "a": 2}',
     b'{"n_embd": NaN}', b'{"n_embd": 1e999}', b"\xff\xfe", b'{"model_type": {}}', b'{"glassformer": []}',
     b'{"glassformer": "gpt", "dim": "x"}', b'{"glassformer": "gpt", "exec": 1}', b'{"glassformer": "os"}',
     b'{"glassformer": "llama", "rope_scaling": {"kind": "eval"}}', b'{"glassformer": "mlp", "hidden_dims": [1e3]}'],
)  # fmt: skip
def test_hostile_configurations_are_refused(text: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(text)
    refused(folder)


def test_unknown_families_get_the_list(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "gemma"}')
    assert "there are gpt2, mingpt, llama, mistral" in refused(folder)


NAMES_OUT = [
    "../x.safetensors", "..\\x.safetensors", "/etc/x.safetensors", "C:\\x.safetensors", "\\\\host\\x.safetensors",
    "a/b.safetensors", "x\0.safetensors", ".hidden.safetensors", "x.bin", "", "..", ".", "x.safetensors/",
    " .safetensors", "~x/../y.safetensors", "%2e%2e.safetensors/../z", "con\n.safetensors",
    "x" * 300 + ".safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES_OUT)
def test_an_index_names_files_beside_it_alone(name: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"transformer.wte.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "model.safetensors.index.json"])
def test_pipes_devices_and_folders_are_not_read(name: str, folder: Path) -> None:
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir, lambda path: os.symlink(path, path)):
        path = folder / name
        if os.path.lexists(path):
            os.unlink(path)
        if name.endswith("index.json") and (folder / "model.safetensors").exists():
            os.unlink(folder / "model.safetensors")
        make(path)
        refused(folder)
        os.rmdir(path) if path.is_dir() else os.unlink(path)


def test_a_link_out_of_the_folder_is_replaced_not_followed(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("model.safetensors", "config.json"):
        os.unlink(folder / name)
        os.symlink(victim, folder / name)
    save(shaken(TINY), folder)
    load(folder)
    assert victim.read_text() == "mine"


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with a few bytes changed, cut, doubled or swapped for something telling."""
    spoiled = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        offset = chance.randrange(len(spoiled) + 1)
        match chance.randrange(6):
            case 0 if offset < len(spoiled):
                spoiled[offset] ^= 1 << chance.randrange(8)
            case 1:
                del spoiled[offset:]
            case 2:
                spoiled[offset:offset] = spoiled[offset : offset + chance.randrange(40)]
            case 3:
                spoiled[offset : offset + 8] = struct.pack("<Q", chance.choice([0, 1, 2**31, 2**40, 2**63, 2**64 - 1]))
            case 4:
                words = [b"999999999999", b"-1", b"null", b'"', b"{", b"[", b"..", b"\0", b"F64", b"I8", b"1e5"]
                spoiled[offset:offset] = chance.choice(words)
            case _:
                del spoiled[offset : offset + chance.randrange(40)]
    return bytes(spoiled)


MUTATIONS = {"model.safetensors": 12000, "config.json": 1500, "native": 1500, "llama2c": 2500, "vectors": 2500}


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("target", MUTATIONS)
def test_twenty_thousand_mutated_files(target: str, share: float, folder: Path, tmp_path: Path) -> None:
    """A clear error or a model each time, and never more memory than the file and a constant."""
    number = int(share * MUTATIONS[target])
    chance = random.Random(target)
    read: Callable[[], object] = lambda: load(folder)  # noqa: E731
    path = folder / target
    if target == "native":
        save(shaken(TINY), folder, format="native")
        path = folder / "config.json"
    elif target == "llama2c":
        path = tmp_path / "tiny.bin"
        path.write_bytes(struct.pack("<7i", 2, 3, 1, 1, 1, 3, 2) + b"\0" * 4 * 50)
        read = lambda: Llama2C(path)  # noqa: E731
    elif target == "vectors":
        path = tmp_path / "tiny.vec"
        path.write_text("3 2\ncat 1.0 2.0\ndog -1.0 0.5\nthe 0 0\n")
        read = lambda: load_vectors(path)  # noqa: E731
    whole = path.read_bytes()
    read()
    good = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(number):
        path.write_bytes(mutated(whole, chance))
        try:
            read()
            good += 1
        except GlassformerError as error:
            assert "\n" not in str(error)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # which counts in 1024 bytes
    assert good < 0.75 * number


def test_files_of_every_family_survive_mutation_of_their_configuration(tmp_path: Path) -> None:
    """Every field of every family in turn gets a value of another kind: never anything but our error."""
    for name in (
        "GPT-2",
        "Llama 3.1",
        "Qwen2, window",
        "BERT, classes",
        "DistilBERT",
        "RoBERTa",
        "ALBERT",
        "T5",
        "BART",
    ):
        save(shaken(replace(PARITY_CONFIGS[name], layers=1)), tmp_path / name)
        path = tmp_path / name / "config.json"
        table = json.loads(path.read_text())
        for field in table:
            for value in (None, "x", 2**70):
                path.write_text(json.dumps({**table, field: value}))
                try:
                    load(tmp_path / name)
                except GlassformerError as error:
                    assert "config.json" in str(error) or str(tmp_path) in str(error)
