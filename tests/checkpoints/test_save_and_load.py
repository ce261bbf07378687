"""Models out and in again: to the bit, in every layout, whole whatever happens on the way."""

import json
import math
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import models

from glassformer.checkpoints.atomic_save import JOURNAL
from glassformer.checkpoints.huggingface import find_hf_model
from glassformer.checkpoints.load import load
from glassformer.checkpoints.native import KIND, RENAMED_ELSEWHERE, RENAMED_FIELDS
from glassformer.checkpoints.save import save
from glassformer.errors import CheckpointError, GlassformerError, TokenizerError
from glassformer.layers.rotary import LinearScaling, NTKScaling, RopeScaling
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import ARCHITECTURES, build, config_type
from glassformer.models.rnn import RNNConfig
from glassformer.models.vit import ViTConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.checkpoints.parity_configs import NAMES, PARITY_CONFIGS, assert_equal, contents, shaken
from tests.models.zoo import ZOO, specimen
from tests.text.sentencepiece_files import write_marian
from tests.training.faults import Faults, PowerCut, cutting

GPT = GPTConfig(vocab=40, context=16, dim=8, layers=2, heads=2)


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return learn_tokenizer(["the cat sat on the mat", "a dog sat on a log"], "bpe", 280)


@pytest.mark.parametrize("format", ["auto", "native"])
@pytest.mark.parametrize("name", ZOO)
def test_every_model_comes_back_to_the_bit(name: str, format: str, tmp_path: Path) -> None:
    pet = specimen(name, torch.float32)
    save(pet.model, tmp_path, format=format)
    back = load(tmp_path)
    assert_equal(pet.model, back.model)
    assert back.model.config == pet.model.config
    assert not back.model.training
    with torch.no_grad():
        assert torch.equal(back.model(**pet.inputs), pet())


@pytest.mark.parametrize("name", NAMES)
def test_every_family_comes_back_to_the_bit_and_so_does_its_file(name: str, tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS[name])
    save(model, tmp_path / "one", format="hf")
    back = load(tmp_path / "one")
    assert back.model.config == model.config and back.left_out == ()
    assert_equal(model, back.model)
    save(back.model, tmp_path / "two", format="hf", like=back.hf_model)
    (one, told), (two, said) = (contents(tmp_path / folder / "model.safetensors") for folder in ("one", "two"))
    assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one) and told == said
    assert (tmp_path / "one/config.json").read_bytes() == (tmp_path / "two/config.json").read_bytes()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_number_types_stay_unless_another_is_asked_for(dtype: torch.dtype, tmp_path: Path) -> None:
    model = shaken(GPT, dtype=dtype)
    save(model, tmp_path)
    assert_equal(load(tmp_path).model, model)
    assert_equal(load(tmp_path, dtype=torch.float64).model, model.double())


def test_mixed_types_become_the_one_that_holds_all(tmp_path: Path) -> None:
    model = shaken(GPT, dtype=torch.bfloat16)
    model.positions.weight.data = model.positions.weight.data.float()
    save(model, tmp_path)
    assert_equal(load(tmp_path).model, model.float())


def test_a_single_file_carries_its_configuration(tmp_path: Path) -> None:
    model = shaken(GPT)
    save(model, tmp_path)
    alone = tmp_path / "elsewhere" / "any.safetensors"
    alone.parent.mkdir()
    shutil.copy(tmp_path / "model.safetensors", alone)
    assert_equal(load(alone).model, model)


def test_a_single_file_without_one_uses_the_config_beside_it(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save(shaken(GPT), tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    save_file(tensors, tmp_path / "plain.safetensors")
    assert_equal(load(tmp_path / "plain.safetensors").model, shaken(GPT))
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match="no config.json beside it"):
        load(tmp_path / "plain.safetensors")


def test_tokenizers_in_other_files_are_read_with_the_model(tmp_path: Path, words: Tokenizer) -> None:
    marian = Tokenizer.load(write_marian(tmp_path))
    save(shaken(GPT), tmp_path / "new", words)
    save(shaken(GPT), tmp_path / "new", marian)
    back = load(tmp_path / "new").tokenizer
    assert back is not None and back.fingerprint == marian.fingerprint, "and no older tokenizer.json takes its place"
    (tmp_path / "new" / "source.spm").unlink()
    with pytest.raises(
        TokenizerError, match="no tokenizer can be read from vocab.json, target.spm; wanted tokenizer.json"
    ):
        load(tmp_path / "new")


def test_tokenizer_labels_and_other_files(tmp_path: Path, words: Tokenizer) -> None:
    config = EncoderConfig(
        vocab=words.vocab_size, context=8, dim=8, layers=1, heads=2, ffn_dim=8, head="classifier", classes=3
    )
    (tmp_path / "config.toml").write_text("steps = 3\n")
    (tmp_path / "step-00000003").mkdir()
    save(shaken(config), tmp_path, words, ["bad", "so so", "good"], in_run=True)
    back = load(tmp_path)
    assert back.labels == ("bad", "so so", "good")
    assert back.tokenizer is not None and back.tokenizer.fingerprint == words.fingerprint
    assert (tmp_path / "config.toml").read_text() == "steps = 3\n" and (tmp_path / "step-00000003").is_dir()
    save(shaken(config, 1), tmp_path, in_run=True)
    assert load(tmp_path).tokenizer is not None and load(tmp_path).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    with pytest.raises(CheckpointError, match="2 labels are given, but the model has 3 classes"):
        save(shaken(config), tmp_path, labels=["no", "yes"], in_run=True)
    save(shaken(RNNConfig(vocab=9, dim=4, hidden_dim=4)), tmp_path, labels=["a"], in_run=True)
    assert load(tmp_path).labels == ("a",)


def test_large_models_are_split_and_small_ones_after_them_are_not(tmp_path: Path) -> None:
    model = shaken(GPT)
    save(model, tmp_path, shard_bytes=2000)
    shards = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(shards) > 3 and shards[0] == f"model-00001-of-{len(shards):05d}.safetensors"
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 4 * model.parameter_count()
    assert_equal(load(tmp_path).model, model)
    save(shaken(GPT, 1), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors*")) == ["model.safetensors"]
    assert_equal(load(tmp_path).model, shaken(GPT, 1))


def test_what_no_family_can_say_is_kept_by_us_and_refused_for_them(tmp_path: Path) -> None:
    model = shaken(replace(ZOO["seq2seq"], norm_first=True))
    with pytest.raises(CheckpointError, match="norm_first is True, but Marian can only say False"):
        save(model, tmp_path, format="hf")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError, match="format is 'pickle', wanted auto, hf or native"):
        save(model, tmp_path, format="pickle")
    save(model, tmp_path)
    assert_equal(load(tmp_path).model, model)


def test_the_error_names_the_nearest_family_and_what_to_train() -> None:
    encoder = EncoderConfig(dim=8, layers=1, heads=2, ffn_dim=8, pool="relu", embedding_dim=4, head="pooled")
    for config, setting in (
        (encoder, r"model\.(pool|embedding_dim)="),
        (ViTConfig(pool="mean"), r"pool is 'mean', but ViT can only say 'class': train with model\.pool=class"),
    ):
        with pytest.raises(CheckpointError, match=setting) as caught:
            find_hf_model(config)
        assert str(caught.value).count("can only say") == 1


def test_files_can_be_read_by_others(tmp_path: Path) -> None:
    save(shaken(GPT), tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_saving_over_a_file_that_someone_reads(tmp_path: Path) -> None:
    from safetensors import safe_open

    save(shaken(GPT), tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        window = file.get_tensor("transformer.wte.weight")
        save(shaken(GPT, 1), tmp_path)
        assert torch.equal(window, shaken(GPT).embedding.weight)
    assert_equal(load(tmp_path).model, shaken(GPT, 1))


def test_a_cut_at_any_moment_leaves_the_old_model_or_the_new(tmp_path: Path, words: Tokenizer) -> None:
    old, new = shaken(GPT), shaken(replace(GPT, layers=1, vocab=50), 1)
    letters = learn_tokenizer(["other words are here"], "bpe", 270)
    save(old, tmp_path / "old", words, shard_bytes=6000)
    found: list[bool] = []
    for at in range(1, 400):
        folder = tmp_path / f"cut-{at}"
        shutil.copytree(tmp_path / "old", folder)
        try:
            with Faults(at, cutting, lasting=True).armed():
                save(new, folder, letters)
        except PowerCut:
            back = load(folder)
            is_new = back.model.config == new.config
            assert_equal(back.model, new if is_new else old)
            assert back.tokenizer.fingerprint == (letters if is_new else words).fingerprint
            found.append(is_new)
            save(old, folder, words, shard_bytes=6000)
            assert_equal(load(folder).model, old)
            assert sorted(os.listdir(folder)) == sorted(os.listdir(tmp_path / "old"))
        else:
            break
        shutil.rmtree(folder)
    assert found == sorted(found) and True in found and False in found  # first the old one, from some moment the new


@pytest.mark.parametrize("call", ["mkdir", "fsync", "rename"])
def test_a_disk_that_fails_is_told_and_nothing_is_lost(call: str, tmp_path: Path) -> None:
    import errno

    from tests.training.faults import failing

    save(shaken(GPT), tmp_path)
    with Faults(1, failing(errno.ENOSPC), only=call).armed(), pytest.raises(GlassformerError, match="the disk is full"):
        save(shaken(GPT, 1), tmp_path)
    assert_equal(load(tmp_path).model, shaken(GPT))
    assert not (tmp_path / JOURNAL).exists()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "there is no such file or folder"),
        (lambda path: path.mkdir(), "has no config.json"),
        (
            lambda path: (path.mkdir(), (path / "model.json").write_text("{}")),
            "thing: holds a run without a whole checkpoint yet; continue it with: glassformer train --resume",
        ),
        (lambda path: path.write_text("hello"), "wanted a folder, a .safetensors file or a llama2.c checkpoint"),
    ],
)
def test_what_is_no_model_is_said(make: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(CheckpointError, match=says):
        load(path)


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    """In processes of their own, for the library that writes them draws an order once for each."""
    program = (
        "import sys, torch, glassformer as gf; from glassformer.models.gpt import GPTConfig; torch.manual_seed(0);"
        "gf.save(gf.build(GPTConfig(vocab=9, context=8, dim=8, layers=1, heads=2)), sys.argv[1])"
    )
    written = set()
    for number in range(3):
        folder = tmp_path / str(number)
        subprocess.run([sys.executable, "-c", program, str(folder)], check=True)
        written.add((folder / "model.safetensors").read_bytes())
    assert len(written) == 1


def test_a_start_token_of_number_zero_begins_translations(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(models.WordLevel({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3}, "a"))
    words = Tokenizer(inner, {"bos": "<s>", "pad": "<pad>", "eos": "</s>"})
    save(build(replace(ZOO["marian"], vocab=4)), tmp_path, words)
    assert json.loads((tmp_path / "config.json").read_text())["decoder_start_token_id"] == 0


EXTREMES = {
    "gpt": [{"layers": 0}, {"eps": 2.0}, {"eps": 0.0}],
    "llama": [
        {"layers": 0}, {"rope_theta": 0.5}, {"eps": 3.0}, {"rope_scaling": RopeScaling()},
        {"rope_scaling": LinearScaling(factor=0.5)}, {"rope_scaling": NTKScaling(factor=2.0), "heads": 2},
        {"kv_heads": 4}, {"head_dim": 2}, {"context": 2**27},
    ],
    "mistral": [{"window": 1}],
    "qwen2": [{"layers": 0, "window": 2}],
    "encoder": [{"layers": 0}, {"eps": 1e9}, {"share_layers": True, "embedding_dim": 4, "layers": 0}, {"classes": 5}],
    "encoder-masked": [{"token_types": 0, "pool": "relu"}, {"activation": "silu", "position_offset": 3}],
    "encoder-classifier": [{"token_types": 0, "pool": "relu"}],
    "t5": [{"decoder_layers": 0}, {"layers": 0}, {"layers": 0, "decoder_layers": 1}, {"eps": 5.0}, {"context": 9}],
    "marian": [{"decoder_layers": 0}, {"layers": 0}, {"output_bias": False}, {"attention_dropout": 0.5}],
    "seq2seq-learned": [
        {"position_offset": 2, "output_bias": True}, {"position_offset": 2, "layers": 0, "decoder_layers": 1},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in EXTREMES for change in EXTREMES[name]])
def test_whatever_is_saved_can_be_loaded(name: str, change: dict[str, object], tmp_path: Path) -> None:
    model = shaken(replace(ZOO[name], **change))
    save(model, tmp_path)
    back = load(tmp_path).model
    assert_equal(model, back)
    inputs = specimen(name).inputs
    with torch.no_grad():
        assert torch.equal(back(**inputs), model(**inputs))


@dataclass(frozen=True, kw_only=True)
class Stretch(RopeScaling):
    """A scaling that nobody knows by its name."""

    by: float = 2.0


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path: Path) -> None:
    says = "the new config.json: rope_scaling has the kind 'Stretch', wanted one of theta, linear, ntk, yarn, llama3"
    with pytest.raises(CheckpointError, match=says):
        save(build(replace(ZOO["llama"], rope_scaling=Stretch())), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_older_kind_of_rope_scaling_is_answered_with_the_new_one(tmp_path: Path) -> None:
    save(shaken(ZOO["llama-ntk"]), tmp_path)
    file = tmp_path / "config.json"
    table = json.loads(file.read_text())
    assert table["rope_scaling"] == {"kind": "ntk", "factor": 2.0}
    file.write_text(json.dumps({**table, "rope_scaling": {"kind": "NTKScaling", "factor": 2.0}}))
    with pytest.raises(CheckpointError, match="rope_scaling has the kind 'NTKScaling', it is now 'ntk'$"):
        load(tmp_path)
    file.write_text(json.dumps({**table, "rope_scaling": {"kind": "ntk", "alpha": 2.0}}))
    with pytest.raises(CheckpointError, match="rope_scaling of kind ntk has no field 'alpha'$"):
        load(tmp_path)


@pytest.mark.parametrize("name", ZOO)
def test_an_older_name_in_our_layout_is_answered_with_the_new_one(name: str, tmp_path: Path) -> None:
    model = shaken(ZOO[name])
    save(model, tmp_path, format="native")
    file = tmp_path / "config.json"
    table = json.loads(file.read_text())
    kind = table[KIND]
    for old, new in (RENAMED_FIELDS | RENAMED_ELSEWHERE.get(kind, {})).items():
        if new in table:
            file.write_text(json.dumps({old if key == new else key: value for key, value in table.items()}))
            with pytest.raises(CheckpointError, match=f"{kind} has no field '{old}': it is now '{new}'$"):
                load(tmp_path)
    both = {
        new: old for old, new in RENAMED_FIELDS.items() if new in table and old not in RENAMED_ELSEWHERE.get(kind, {})
    }
    if len(both) > 1:
        file.write_text(json.dumps({both.get(key, key): value for key, value in table.items()}))
        names = ", ".join(f"{old!r} is now {new!r}" for new, old in sorted(both.items(), key=lambda pair: pair[1]))
        with pytest.raises(CheckpointError, match=f"{kind} has other names for these fields: {names}$"):
            load(tmp_path)
    older = type(model.body if isinstance(model, CausalClassifier) else model).__name__
    file.write_text(json.dumps({**table, KIND: older}))
    with pytest.raises(CheckpointError, match=f"{KIND} is '{older}', it is now '{kind}'$"):
        load(tmp_path)


def test_every_new_name_is_one() -> None:
    known = {kind: {field.name for field in fields(config_type(model))} for kind, model in ARCHITECTURES.items()}
    everywhere = set[str]().union(*known.values())
    assert set(RENAMED_FIELDS.values()) <= everywhere and not RENAMED_FIELDS.keys() & everywhere
    for kind, names in RENAMED_ELSEWHERE.items():
        assert set(names.values()) <= known[kind]


def test_settings_for_writing_stay_with_a_model(tmp_path: Path) -> None:
    save(shaken(GPT), tmp_path / "one")
    said = {"do_sample": True, "temperature": 0.6, "eos_token_id": [3, 4], "transformers_version": "4.42.3"}
    (tmp_path / "one/generation_config.json").write_text(json.dumps(said))
    back = load(tmp_path / "one")
    for format in ("hf", "native"):
        save(back.model, tmp_path / format, format=format, like=back.hf_model)
        assert json.loads((tmp_path / format / "generation_config.json").read_text()) == said


def test_numbers_too_large_for_a_type_are_named(tmp_path: Path) -> None:
    model = shaken(GPT)
    with torch.no_grad():
        model.positions.weight[1, 2], model.positions.weight[0, 0] = 1e6, math.inf
    save(model, tmp_path)
    with pytest.raises(CheckpointError, match=r"positions.weight holds 1e\+06, wanted at most 65504, the largest floa"):
        load(tmp_path, dtype=torch.float16)
    assert load(tmp_path, dtype=torch.bfloat16).model.positions.weight[0, 0] == math.inf
    with torch.no_grad():
        model.positions.weight[1, 2] = 65504.0
    save(model, tmp_path)
    assert load(tmp_path, dtype=torch.float16).model.positions.weight[1, 2] == 65504.0


def test_a_disk_that_is_full_for_the_tensors_is_said_in_one_line(tmp_path: Path) -> None:
    """Their library has an error of its own for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(GlassformerError, match="not saved, what was there is untouched: the file is larger"):
            save(build(GPTConfig(vocab=9, context=8, dim=16, layers=1, heads=2)), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_training_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "step-00000010").mkdir()
    with pytest.raises(CheckpointError, match="holds a training run, whose model would be lost: name another folder"):
        save(shaken(GPT), tmp_path)
    with pytest.raises(CheckpointError, match="the folder to save to is empty"):
        save(shaken(GPT), "")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]
