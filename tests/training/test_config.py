"""Settings from defaults, presets, files and words: who wins, what TOML gives back, what is said of mistakes."""

import itertools
import math
import string
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.layers.rotary import Llama3Scaling, YarnScaling
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import ARCHITECTURES, architecture_of, build, presets
from glassformer.suggestions import nearest_names
from glassformer.training import config as config_module
from glassformer.training.config import (
    Resolved,
    differing_keys,
    resolve,
    resolve_for_machine,
    tables,
    to_toml,
)
from glassformer.training.registry import FOLLOWS, TASKS, defaults, families, follows, keys, values_of
from glassformer.training.renamed import RENAMED, RENAMED_VALUES
from glassformer.training.schema import as_toml, converted, in_words, toml_value
from glassformer.training.sizes import SIZES
from tests.cases import cases
from tests.training.config_strategies import ANYTHING, TASKS_AND_FAMILIES, choices, is_right, nested

FILE = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configs")


def written(folder: Path, content: str | bytes) -> Path:
    """A new file with this content."""
    path = folder / f"given-{next(FILE)}.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def complaint(task: str | None = None, preset: str | None = None, file: Path | None = None, *words: str) -> str:
    """The one line that is said of a mistake."""
    with pytest.raises(ConfigError) as caught:
        resolve(task, preset, file, words)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    assert len(text) < 500
    return text


# Who wins.


@pytest.mark.parametrize("task", TASKS)
def test_where_nobody_chose_there_are_defaults(task: str) -> None:
    found = resolve(task)
    assert found.settings == defaults(task)
    assert set(found.origins.values()) == {"default"}
    assert (
        list(found.origins)
        == list(values_of(found.settings))
        == list(keys(task, architecture_of(found.settings.model)))
    )


def test_later_wins(folder: Path) -> None:
    file = written(folder, "[model]\nlayers = 3\nheads = 3\n[recipe]\nsteps = 2000\nseed = 7\n")
    found = resolve("gpt", "gpt2", file, ["model.heads=6", "recipe.seed=9"])
    assert found.settings.model == replace(GPTConfig(), layers=3, heads=6)
    assert found.settings.recipe == replace(defaults("gpt").recipe, steps=2000, warmup_steps=100, seed=9)
    wanted = {"model.dim": "preset gpt2", "model.layers": str(file), "model.heads": "command line",
              "recipe.steps": str(file), "recipe.seed": "command line", "recipe.learning_rate": "default"}  # fmt: skip
    assert {key: found.origins[key] for key in wanted} == wanted


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("times", [0.25, 1, 3])
def test_the_width_of_feed_forward_layers_follows_that_of_the_model(task: str, times: float) -> None:
    for family in families(task):
        usual = resolve(task, words=[f"model.family={family}"]).settings.model
        if "ffn_dim" not in vars(usual):  # each tower has its own
            continue
        dim = int(usual.dim * times)
        words = [f"model.family={family}", f"model.dim={dim}"]
        found = resolve(task, words=words).settings.model
        assert found.ffn_dim == (None if usual.ffn_dim is None else usual.ffn_dim * times)
        if usual.ffn_dim is not None:
            assert (
                resolve(task, words=[*words, f"model.ffn_dim={usual.ffn_dim}"]).settings.model.ffn_dim == usual.ffn_dim
            )


@given(choices())
def test_words_and_files_mean_the_same(folder: Path, choice: tuple[str, dict[str, object]]) -> None:
    task, values = choice
    by_file = resolve(task, file=written(folder, tomli_w.dumps(nested(values))))
    by_words = resolve(task, words=[f"{key}={toml_value(value)}" for key, value in values.items()])
    assert by_file.settings == by_words.settings
    assert {key for key, origin in by_words.origins.items() if origin == "command line"} == set(values)
    for key, value in values.items():
        assert as_toml(values_of(by_file.settings)[key]) == value


@given(choices(), st.booleans())
def test_toml_comes_back_as_it_was(folder: Path, choice: tuple[str, dict[str, object]], origins: bool) -> None:
    task, values = choice
    found = resolve(task, words=[f"{key}={toml_value(value)}" for key, value in values.items()])
    text = to_toml(found, origins=origins)
    again = resolve(None, file=written(folder, text))
    assert (again.task, again.settings) == (task, found.settings)
    assert tomllib.loads(text) == tables(found)
    assert ("# command line" in text) is origins


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", presets())
def test_presets_fit_or_say_which_do(task: str, name: str, folder: Path) -> None:
    config = presets()[name]
    if architecture_of(config) in families(task):
        found = resolve(task, name)
        fixed = follows(task)
        chosen = {key: value for key, value in vars(found.settings.model).items() if f"model.{key}" not in fixed}
        assert chosen == {key: value for key, value in vars(config).items() if f"model.{key}" not in fixed}
        assert {found.origins[f"model.{key}"] for key in chosen} <= {f"preset {name}"}
        assert resolve(file=written(folder, to_toml(found))).settings == found.settings
    else:
        text = complaint(task, name)
        listed = text.partition("those that fit: ")[2].split(", ")
        assert listed == [other for other in presets() if architecture_of(presets()[other]) in families(task)]


def test_another_family_has_the_shape_of_the_tasks_default() -> None:
    found = resolve("gpt", words=["model.layers=2", "model.family=llama"])
    assert found.settings.model == LlamaConfig(layers=2, dim=128, heads=4, context=128, ffn_dim=344)
    assert found.origins["model.dim"] == "default"
    assert "leave one out" in complaint("gpt", "gpt2", None, "model.family=llama")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("task", "family"), [(task, family) for task in TASKS for family in families(task)])
def test_every_size_of_every_family_can_be_built(task: str, family: str, size: str, folder: Path) -> None:
    found = resolve(task, words=[f"model.family={family}"], size=size)
    model, data = found.settings.model, found.settings.data
    if "max_length" in vars(data) and "context" in vars(model):
        assert model.context is None if family == "t5" else vars(data)["max_length"] <= model.context  # T5 has no limit
    if "ffn_dim" in vars(model):
        assert (model.ffn_dim or 4 * model.dim) in range(2 * model.dim, 4 * model.dim + 1)
    assert build(model, device="meta").parameter_count() < 120_000_000
    assert size == "tiny" or found.origins.get("model.dim", f"size {size}") == f"size {size}"
    assert resolve(file=written(folder, to_toml(found))).settings == found.settings


def test_an_unknown_size_is_said() -> None:
    with pytest.raises(ConfigError, match='there is no size "smal"; did you mean small'):
        resolve("gpt", size="smal")


def test_what_was_not_given_follows_what_was() -> None:
    assert vars(resolve("gpt", words=["model.context=64"]).settings.data)["max_length"] == 64
    assert resolve("gpt", words=["data.max_length=512"]).settings.model.context == 512
    t5 = resolve("translate", words=["model.family=t5", "model.dim=64", "model.heads=2"]).settings.model
    assert (t5.head_dim, t5.ffn_dim) == (32, 256)


def test_fine_tuning_has_a_lower_learning_rate() -> None:
    assert resolve("gpt", words=["run.init=x"]).settings.recipe.learning_rate == 2e-4
    given = ["run.init=x", "recipe.learning_rate=1e-3"]
    assert resolve("gpt", words=given).settings.recipe.learning_rate == 1e-3


def test_defaults_suit_the_size_of_the_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(folder, "to be or not to be\n" * 20_000)  # 380 kB
    words = [f"data.path={text}"]
    found = resolve_for_machine("gpt", None, None, words, "command line", "small")
    assert found.settings.tokenizer.vocab_size == 760
    assert (vars(found.settings.model)["dropout"], found.settings.recipe.weight_decay) == (0.1, 0.1)
    assert found.origins["tokenizer.vocab_size"] == found.origins["model.dropout"] == "0.38 MB of data"
    given = [*words, "tokenizer.vocab_size=5000", "model.dropout=0", "recipe.weight_decay=0"]
    kept = resolve_for_machine("gpt", None, None, given, "command line", "small")
    assert kept.settings.tokenizer.vocab_size == 5000 and kept.settings.recipe.weight_decay == 0
    file = written(folder, to_toml(resolve("gpt", words=words)))
    assert resolve_for_machine(None, None, file, [], "command line", None) == resolve(file=file)
    monkeypatch.setattr(config_module, "has_gpu", lambda device: True)
    assert resolve_for_machine("gpt", None, None, [], "command line", None).settings.model.dim == 512
    assert resolve_for_machine("gpt", None, None, words, "command line", None).settings.model.dim == 256


def test_a_head_follows_from_the_task() -> None:
    assert vars(resolve("classify", "bert-base").settings.model)["head"] == "classifier"
    assert vars(resolve("masked", "minilm").settings.model)["head"] == "masked"


def test_a_scaling_is_a_table_with_a_kind(folder: Path) -> None:
    file = written(
        folder, '[model]\nfamily = "llama"\n[model.rope_scaling]\nkind = "yarn"\nfactor = 4\noriginal_length = 64'
    )
    assert vars(resolve("gpt", file=file).settings.model)["rope_scaling"] == YarnScaling(factor=4.0, original_length=64)
    preset = resolve("gpt", "llama-3.1-8b")
    assert vars(preset.settings.model)["rope_scaling"] == Llama3Scaling(factor=8.0)
    assert (
        vars(resolve("gpt", "llama-3.1-8b", None, ["model.rope_scaling=none"]).settings.model)["rope_scaling"] is None
    )
    for table, expected in {
        '{kind = "linear"}': "model.rope_scaling: the kind linear lacks factor, wanted a number above 0",
        '{kind = "round"}': 'model.rope_scaling.kind is "round", wanted one of theta, linear, ntk, yarn, llama3',
        "{factor = 2.0}": 'model.rope_scaling.kind is "", wanted one of',
        '{kind = "ntk", factor = true}': "model.rope_scaling.factor is true, wanted a number above 0",
        '{kind = "ntk", factor = 1, factr = 2}': 'the kind ntk has no "factr", it has factor',
    }.items():
        assert expected in complaint("gpt", "llama-7b", None, f"model.rope_scaling={table}")


@pytest.mark.parametrize("text", ["2024", "2024-01-01", "true", "[a]", "a = b", "x # y", "", '"a"\nb = 2', "été"])
def test_a_path_may_look_like_anything(text: str) -> None:
    assert resolve("gpt", words=[f"data.path={text}"]).settings.data.path == text


def test_resolved_comments_stay_comments(folder: Path) -> None:
    file = folder / "a\nb = 1.toml"
    file.write_text("[recipe]\nseed = 5\n")
    text = to_toml(resolve("gpt", file=file), origins=True)
    assert tomllib.loads(text)["recipe"]["seed"] == 5
    assert "b = 1" not in {line.strip() for line in text.splitlines()}


def test_keys_that_differ() -> None:
    saved = resolve("gpt", words=["recipe.steps=500", "recipe.seed=3"])
    asked = resolve("gpt", words=["recipe.steps=600", "recipe.seed=3", "run.device=cuda"])
    assert differing_keys(saved, asked) == ["recipe.steps", "run.device"]
    assert differing_keys(saved, resolve("gpt")) == []
    other = resolve("gpt", words=["model.family=llama", "model.kv_heads=2"])
    assert differing_keys(saved, other) == ["model.family", "model.kv_heads"]


# What is said of mistakes.


MISTAKES = {
    "model.dim=12.5": "command line: model.dim is 12.5, wanted a whole number, 1 or more",
    "model.dim=12.0": "command line: model.dim is 12.0, wanted a whole number, 1 or more",
    "model.dim=twelve": 'command line: model.dim is "twelve", wanted a whole number',
    'model.dim="12"': 'command line: model.dim is "12", wanted a whole number',
    "recipe.stepz=4": "there is no key recipe.stepz in gpt; did you mean recipe.steps (a whole number, 1 or more)?",
    "steps=4": "command line: there is no key steps in gpt; did you mean recipe.steps (a whole number, 1 or more)?",
    "model.kv_heads=2": "model.kv_heads is not a key of a gpt; model.family can be llama or modern, which have it",
    "model.vocab=100": "model.vocab cannot be set, it follows from the tokenizer",
    "model.classes=100": "model.classes cannot be set, it follows from the labels in the data",
    "model.head=masked": "model.head cannot be set, it follows from the task",
    "recipe.betas=[0.9]": "recipe.betas is [0.9], wanted a list of 2, each a number from 0 to just below 1",
    "recipe.learning_rate=nan": "recipe.learning_rate is nan, wanted a number above 0",
    "recipe.seed=9223372036854775808": "recipe.seed is 9223372036854775808, wanted a whole number, 0 or more",
    "model.dim=-8": "model.dim is -8, wanted a whole number, 1 or more",
    "run.keep_checkpoints=1": "run.keep_checkpoints is 1, wanted a whole number, 2 or more",
    "model.dropout=1": "model.dropout is 1, wanted a number from 0 to just below 1",
    "data.validation_fraction=0": "data.validation_fraction is 0, wanted a number between 0 and 1",
    "recipe.warmup_steps=1000": "recipe: warmup_steps is 1000, wanted less than steps, which is 600 "
    "(recipe.steps: default, recipe.warmup_steps: command line)",
    "model.ffn_dim.x=1": "model.ffn_dim is one value and has no key model.ffn_dim.x, wanted a whole number, 1 or more",
    "qqqq=1": "there is no key qqqq in gpt; `glassformer config gpt` lists them all",
    "steps": '"steps" sets nothing, wanted key=value',
    "=5": '"=5" sets nothing, wanted key=value',
    f"recipe.steps={'x' * 1000}": f'recipe.steps is "{"x" * 59}…, wanted a whole number',
    "data.path=\udcff": "data.path is not UTF-8, wanted text",
}


@pytest.mark.parametrize("word", MISTAKES, ids=lambda word: ascii(word)[:40])
def test_mistakes_on_the_command_line(word: str) -> None:
    assert MISTAKES[word] in complaint("gpt", None, None, word)


@pytest.mark.parametrize("old", RENAMED)
def test_an_older_name_of_a_key_is_answered_with_the_new_one(old: str, folder: Path) -> None:
    new = RENAMED[old]
    pairs = [(task, family) for task in TASKS for family in families(task)]
    assert not any(old in keys(*each) for each in pairs)
    tasks = {task for task, family in pairs if new in keys(task, family)}
    assert tasks, f"no task has {new}"
    section, _, name = old.partition(".")
    file = written(folder, f"[{section}]\n{name} = 1\n")
    for task in TASKS:
        by_word, by_file = complaint(task, None, None, f"{old}=1"), complaint(task, None, file)
        if task in tasks:
            said = f"unknown setting {old}: it is now {new}"
            assert (by_word, by_file) == (f"command line: {said}", f"{file}: {said}")
        else:
            assert "it is now" not in by_word + by_file


@pytest.mark.parametrize(("key", "old"), [(key, old) for key, values in RENAMED_VALUES.items() for old in values])
def test_an_older_value_is_answered_with_the_new_one(key: str, old: str, folder: Path) -> None:
    new = RENAMED_VALUES[key][old]
    assert values_of(resolve("gpt", words=[f"{key}={new}"]).settings)[key] == new
    section, _, name = key.partition(".")
    file = written(folder, f'[{section}]\n{name} = "{old}"\n')
    said = f'{key}="{old}" is now "{new}"'
    assert complaint("gpt", None, None, f"{key}={old}") == f"command line: {said}"
    assert complaint("gpt", None, file) == f"{file}: {said}"


def test_all_older_names_of_a_file_are_answered_at_once(folder: Path) -> None:
    file = written(folder, '[data]\nlongest = 8\n[recipe]\nrate = 1\nclip = 1\n[run]\nprecision = "fp32"\n')
    said = "data.longest is now data.max_length, recipe.rate is now recipe.learning_rate, "
    said += 'recipe.clip is now recipe.max_grad_norm, run.precision="fp32" is now "float32"'
    assert complaint("gpt", None, file) == f"{file}: {said}"


def test_of_a_word_given_twice_the_later_wins() -> None:
    assert resolve("gpt", words=["recipe.seed=1", "recipe.steps=7", "recipe.seed=2"]).settings.recipe.seed == 2


@pytest.mark.parametrize("text", ["0.9,0.95", "0.9, 0.95", "[0.9, 0.95]"])
def test_a_list_needs_no_brackets(text: str) -> None:
    assert resolve("gpt", words=[f"recipe.betas={text}"]).settings.recipe.betas == (0.9, 0.95)
    words = resolve("classify", words=["data.fields=class, review"]).settings
    assert vars(words.data)["fields"] == ("class", "review")
    wanted = "wanted a list of 2, each a number from 0 to just below 1"
    assert f"recipe.betas is [0.9, 1.5], {wanted}" in complaint("gpt", None, None, "recipe.betas=0.9,1.5")


@pytest.mark.parametrize("text", ["0", "none"])
@pytest.mark.parametrize("schedule", ["noam", "cosine", "linear", "stable", "constant"])
def test_clipping_and_warm_up_can_be_switched_off(text: str, schedule: str, folder: Path) -> None:
    off = [f"recipe.max_grad_norm={text}", f"recipe.warmup_steps={text}", f"recipe.schedule={schedule}"]
    found = resolve("gpt", words=off)
    recipe = found.settings.recipe
    assert (recipe.max_grad_norm, recipe.warmup_steps) == (0, 0)
    assert recipe.gradient_limit == math.inf
    assert recipe.learning_rate_at(1) == pytest.approx(recipe.learning_rate)
    assert replace(recipe, steps=1).learning_rate_at(1) == pytest.approx(recipe.learning_rate)
    assert resolve(file=written(folder, to_toml(found))).settings == found.settings


BAD_FILES = {
    "recipe = 3": "recipe is 3, wanted a table: [recipe] and its keys",
    "[recipes]\nsteps = 3": "there is no table recipes; did you mean recipe?",
    "[qqqq]": "there is no table qqqq; wanted one of data, tokenizer, model, recipe, lora, run",
    "steps = 3": "there is no key steps in gpt; did you mean recipe.steps (a whole number, 1 or more)?",
    'task = "translate"': 'task is "translate", but gpt was asked for',
    "task = [1]": "task is [1], wanted one of translate, gpt, masked, classify",
    "a = [": "is not valid TOML",
    "a = " + "[" * 10_000: "is not valid TOML",
    "a = " + "9" * 5_000: "is not valid TOML",
    "a = 1\na = 2": "is not valid TOML",
    b"\xff\xfe": "is not UTF-8 text at byte 0, wanted a TOML file",
    "[recipe]\n" + "x" * 10_000 + " = 1": "there is no key recipe.xxx",
    '[recipe]\n"a\\nb" = 1': "there is no key recipe.a\N{REPLACEMENT CHARACTER}b",
}


@pytest.mark.parametrize("content", BAD_FILES, ids=lambda content: ascii(content)[:20])
def test_mistakes_in_a_file(content: str | bytes, folder: Path) -> None:
    file = written(folder, content)
    text = complaint("gpt", None, file)
    assert text.startswith(f"{file}: ")
    assert BAD_FILES[content] in text


def test_files_that_are_none(folder: Path) -> None:
    assert "No such file" in complaint("gpt", None, folder / "missing.toml")
    assert "Is a directory" in complaint("gpt", None, folder)


def test_a_task_is_needed(folder: Path) -> None:
    assert "no task is named, wanted one of translate" in complaint()
    assert "no task is named" in complaint(None, None, written(folder, "[recipe]"))
    assert "did you mean gpt?" in complaint("gtp")
    assert resolve(file=written(folder, 'task = "masked"')).task == "masked"


def test_unknown_presets_list_those_that_fit() -> None:
    assert 'there is no preset "gpt22"; those that fit: gpt2, ' in complaint("gpt", "gpt22")


@given(st.sampled_from(sorted(keys("gpt", "gpt"))), st.data())
def test_a_slip_of_the_finger_finds_its_key(key: str, data: st.DataObject) -> None:
    end = key.rpartition(".")[2]
    assume(len(end) > 4)
    index = data.draw(st.integers(len(key) - len(end), len(key) - 1))
    slip = key[:index] + data.draw(st.sampled_from(string.ascii_lowercase)) + key[index + 1 :]
    assert nearest_names(slip, keys("gpt", "gpt"))[0] == key


@given(TASKS_AND_FAMILIES.flatmap(lambda s: st.sampled_from(list(keys(*s).items()))), ANYTHING)
def test_a_value_is_taken_or_refused_whole(item: tuple[str, object], value: object) -> None:
    key, kind = item
    if is_right(key, value, kind):
        assert as_toml(converted(key, value, kind)) == value
    else:
        with pytest.raises(ConfigError, match="wanted"):
            converted(key, value, kind)


SOUND: list[dict[str, object]] = [
    {},
    {"recipe.seed": 3, "model.dim": 64},
    {"tokenizer.kind": "words", "run.keep_checkpoints": 3},
]


@st.composite
def wrong_files(draw: st.DrawFn) -> tuple[str, str, str, tuple[str, ...]]:
    """A task, a file for it with one mistake among things that are right, and what must be said."""
    task, family = draw(TASKS_AND_FAMILIES)
    known = keys(task, family)
    sound = {key: value for key, value in draw(st.sampled_from(SOUND)).items() if key in known}
    values = {"model.family": family, **sound}
    what = draw(st.sampled_from(["value", "value", "value", "key", "table", "derived", "torn"]))
    if what == "value":
        key = draw(st.sampled_from(sorted(known)))
        wrong = draw(ANYTHING.filter(lambda value: not is_right(key, value, known[key])))
        assume(not (isinstance(wrong, dict) and in_words(known[key]).startswith("a table")))
        return task, tomli_w.dumps(nested({**values, key: wrong})), key, (key, in_words(known[key]))
    if what == "key":
        section = draw(st.sampled_from(["data", "tokenizer", "model", "recipe", "run"]))
        name = draw(st.text(string.ascii_letters + "_-.é \n", min_size=1, max_size=15))
        key = f"{section}.{name}"
        assume(not any(key in keys(task, other) for other in families(task)) and key not in FOLLOWS)
        text = tomli_w.dumps(nested({**values, key: 1}))
        return task, text, key, ("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in key),)
    if what == "table":
        section = draw(st.sampled_from(["data", "tokenizer", "recipe", "run"]))
        value = draw(ANYTHING.filter(lambda value: not isinstance(value, dict)))
        return task, tomli_w.dumps({**nested(values), section: value}), section, (section, "wanted a table")
    if what == "derived":
        key = draw(st.sampled_from(sorted(follows(task))))
        return task, tomli_w.dumps(nested({**values, key: 1})), key, (key, "follows from")
    text = tomli_w.dumps(nested(values))
    return task, text + draw(st.sampled_from(["[", "x", "= 1", '"', "[data\n", "x = 01"])), "", ("is not valid TOML",)


@settings(cases(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(wrong_files())
def test_files_that_are_wrong_somewhere(folder: Path, wrong: tuple[str, str, str, tuple[str, ...]]) -> None:
    task, content, _, parts = wrong
    file = written(folder, content)
    began = time.process_time()
    text = complaint(task, None, file)
    assert time.process_time() - began < 5
    assert text.startswith(f"{file}: ")
    assert [part for part in parts if part not in text] == []


def test_every_type_can_be_said_in_words() -> None:
    for task in TASKS:
        for family in families(task):
            assert all(in_words(kind) for kind in keys(task, family).values())
    assert set(ARCHITECTURES) == {family for task in TASKS for family in families(task)}, "every model can be trained"


def test_what_is_resolved_is_whole() -> None:
    found = resolve("gpt")
    assert found == Resolved("gpt", defaults("gpt"), dict.fromkeys(keys("gpt", "gpt"), "default"))


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (2, 1), (60, 6), (999, 99), (1000, 100), (5000, 100)])
def test_a_warm_up_that_nobody_chose_is_at_most_a_tenth_of_the_steps(steps: int, warmup: int, folder: Path) -> None:
    found = resolve("gpt", words=[f"recipe.steps={steps}"])
    assert found.settings.recipe.warmup_steps == warmup
    assert resolve(file=written(folder, to_toml(found))).settings == found.settings
    assert resolve("gpt", words=["recipe.steps=60", "recipe.warmup_steps=59"]).settings.recipe.warmup_steps == 59
    assert "warmup_steps is 60" in complaint("gpt", None, None, "recipe.steps=60", "recipe.warmup_steps=60")


def test_a_file_without_an_end_is_no_file_of_settings(folder: Path) -> None:
    assert "/dev/zero: has more than 1,000,000 characters" in complaint("gpt", None, Path("/dev/zero"))
    long = written(folder, "# settings\n" * 100_000)
    assert "has more than 1,000,000 characters, wanted a TOML file of settings" in complaint("gpt", None, long)


def test_settings_that_do_nothing_in_a_scheme_are_named() -> None:
    for words in (["model.window=64"], ["model.attention=sliding_window", "model.dilation=3"], ["model.block_size=8"]):
        name, value = words[-1].split("=")
        text = complaint("gpt", None, None, "model.family=modern", *words)
        assert (
            f"{name.removeprefix('model.')} is {value}, which attention=" in text
            and "does not use: leave it out" in text
        )
    text = complaint("gpt", None, None, "model.family=modern", "model.attention=block_sparse", "model.window=64")
    assert "model: window is 64, which attention=block_sparse does not use" in text
    text = complaint("gpt", None, None, "model.family=modern", "model.positions=alibi", "model.rope_theta=5.0")
    assert "model: rope_theta is 5.0, which positions=alibi does not use" in text
    assert resolve("gpt", words=["model.family=modern", "model.attention=dilated", "model.window=64"])
