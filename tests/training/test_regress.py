"""Regression on tables of numbers: what is learned, saved and resumed, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from glassformer.checkpoints.load import load
from glassformer.cli.main import main
from glassformer.data.tables import TableBatches, read_numbers, sine_table
from glassformer.errors import DataError, GlassformerError
from glassformer.training.evaluate import evaluate
from glassformer.training.registry import families, keys
from glassformer.training.run import Run, prepare_task, train_task
from glassformer.training.tasks.regress import RegressionMetrics

QUICK = {"recipe.steps": 300, "run.device": "cpu", "run.compile": "no"}


def metrics(run: Run) -> RegressionMetrics:
    found = run.evaluate()
    assert isinstance(found, RegressionMetrics)
    return found


def plane(path: Path, rows: int = 60) -> Path:
    """A table whose price is 3 · size − 1,000 · age + 5,000, with inputs of very different spread."""
    random = np.random.default_rng(0)
    size, age = random.uniform(500, 5000, rows), random.uniform(0, 1, rows)
    lines = [f"{a},{3 * a - 1000 * b + 5000},{b}" for a, b in zip(size, age, strict=True)]
    path.write_text("\n".join(["size,price,age", *lines]) + "\n")
    return path


def test_a_line_explains_little_of_a_sine_and_a_network_most() -> None:
    line = metrics(train_task("regress", {**QUICK, "model.family": "linear"}))
    network = metrics(train_task("regress", {**QUICK, "recipe.steps": 800}))
    assert line.rows == network.rows == 40
    assert line.r_squared is not None and line.r_squared < 0.1
    assert network.r_squared is not None and network.r_squared > 0.5
    assert network.mean_squared_error < line.mean_squared_error


def test_linear_regression_finds_the_least_squares(tmp_path: Path) -> None:
    file = plane(tmp_path / "houses.csv")
    settings = {**QUICK, "data.path": str(file), "data.target": "price", "model.family": "linear"}
    run = train_task("regress", settings, out=tmp_path / "run")
    found = metrics(run)
    assert found.r_squared is not None and found.r_squared > 0.9999
    model = load(tmp_path / "run").model
    scale = [model.config.target_std[0] / each for each in model.config.input_std]
    weights = [w * s for w, s in zip(model.layer.weight[:, 0].tolist(), scale, strict=True)]
    assert weights == pytest.approx([3, -1000], rel=0.01)
    again = evaluate(tmp_path / "run", str(file))
    assert isinstance(again, RegressionMetrics) and again.rows == 60
    assert again.r_squared is not None and again.r_squared > 0.9999


def test_a_stopped_run_resumes_to_the_bit(tmp_path: Path) -> None:
    settings = {**QUICK, "recipe.steps": 30, "recipe.save_every": 5, "recipe.log_every": 5}
    train_task("regress", settings, out=tmp_path / "whole")
    for log in prepare_task("regress", settings, out=tmp_path / "stopped").train():
        if log.step == 20:
            break
    train_task(out=tmp_path / "stopped", resume=True)
    for name in ("model.safetensors", "config.toml"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()


def test_commands_train_evaluate_and_write_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = tmp_path / "run", plane(tmp_path / "houses.csv")
    words = ["recipe.steps=20", "run.device=cpu", "data.target=price", "model.hidden_dims=[4]"]
    assert main(["train", "regress", *words, "-d", str(file), "--out", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["rows"] == 12
    assert main(["evaluate", str(run), "--out", str(tmp_path / "rows.jsonl")]) == 0
    first = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    assert set(first["inputs"]) == {"size", "age"} and {"target", "prediction"} <= set(first)


def test_its_families_and_keys() -> None:
    assert families("regress") == ("linear", "mlp")
    assert "model.hidden_dims" in keys("regress", "mlp") and "model.hidden_dims" not in keys("regress", "linear")
    assert not {"model.inputs", "model.input_mean", "tokenizer.kind"} & set(keys("regress", "mlp"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,2\n2,abc\n", "t.csv:3: y is 'abc', wanted a finite number"),
        ("x,y\n1,2\n2,nan\n", "t.csv:3: y is 'nan', wanted a finite number"),
        ("x,y\n1,2\n2,inf\n", "t.csv:3: y is 'inf', wanted a finite number"),
        ("x,y\n1,2\n2,\n", "t.csv:3: y is empty, wanted a finite number"),
        ("x,y\n1,2\n2\n", "t.csv:3: has 1 columns, wanted 2, as in the first row"),
        ("1,two\n3,4\n", "t.csv:1: column 2 is 'two', wanted a finite number"),
        ("x\n1\n2\n", "t.csv:1: has one column, wanted at least two"),
        ("x,x\n1,2\n", "t.csv:1: has two columns of one name"),
        ("", "t.csv: is empty"),
        ("x,y\n", "t.csv: has 0 different rows, wanted at least 2"),
        ("x,y\n1,2\n", "t.csv: has 1 different rows, wanted at least 2"),
        ("x,y\n1,2\n1,2\n", "t.csv: has 1 different rows, wanted at least 2"),
        ("x,y\n1,2\n2,2\n3,2\n", "t.csv: y is 2 in every row, so there is nothing to learn"),
    ],
)
def test_a_table_that_cannot_be_learned_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    assert main(["train", "regress", "-d", str(file), "run.device=cpu", "--out", str(tmp_path / "run")]) != 0
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_other_mistakes_are_named(tmp_path: Path) -> None:
    file, other = plane(tmp_path / "houses.csv"), tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n3,4\n")
    for settings, said in (
        ({"data.path": str(file), "data.target": "cost"}, "has no column 'cost', only size, price, age"),
        ({"data.path": str(file), "data.validation": str(other)}, "has the columns a, b, wanted size, price, age"),
        ({"data.path": str(tmp_path / "t.txt")}, "wanted a table of numbers, a .csv or .tsv file"),
        ({"recipe.label_smoothing": 0.1}, "recipe.label_smoothing are for classes"),
        ({"model.inputs": 3}, "model.inputs cannot be set, it follows from the columns of the data"),
        ({"tokenizer.kind": "bpe"}, "regress reads no text, so it has no tokenizer"),
    ):
        with pytest.raises(GlassformerError, match=said):
            train_task("regress", {**QUICK, **settings})
    train_task("regress", {**QUICK, "recipe.steps": 2}, out=tmp_path / "run")
    with pytest.raises(DataError, match="has 3 columns, wanted 2: 1 inputs and what to predict"):
        evaluate(tmp_path / "run", str(file))


def test_targets_that_are_all_the_same_have_no_r_squared(tmp_path: Path) -> None:
    train_task("regress", {**QUICK, "recipe.steps": 2}, out=tmp_path / "run")
    (tmp_path / "same.csv").write_text("x,y\n1,2\n2,2\n")
    found = evaluate(tmp_path / "run", str(tmp_path / "same.csv"))
    assert isinstance(found, RegressionMetrics) and found.r_squared is None and found.rows == 2


def test_tables_without_a_header_and_with_tabs_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("1\t2e1\n\n3\t-4\n")
    found = read_numbers(tmp_path / "t.tsv")
    assert found.columns == ("column 1", "column 2") and found.values.tolist() == [[1, 20], [3, -4]]


def test_batches_cover_every_row_and_know_their_data() -> None:
    table = sine_table()
    batches = TableBatches(table, 1, 64)
    assert sum(len(batch["x"]) for batch in batches.once()) == len(table.values)
    changed = sine_table()
    changed.values[0, 1] += 1e-9
    assert TableBatches(changed, 1, 64).identity() != batches.identity()
