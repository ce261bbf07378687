"""Regression: predict a number from the other numbers of a row; evaluated by mean squared error and R²."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.splitting import split
from glassformer.data.tables import SINE, NumberTable, TableBatches, read_numbers, sine_table
from glassformer.equation import no_checks
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.metrics import r_squared
from glassformer.errors import ConfigError, DataError
from glassformer.layers.config import Config, Fraction, Size, setting
from glassformer.layers.model import Model
from glassformer.layers.regressor import Regressor
from glassformer.models.mlp import MLPConfig
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, RunSettings, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

ROWS_AT_ONCE = 4096  # of a batch in an evaluation
SINE_MODEL = MLPConfig(inputs=1, hidden_dims=(10, 10), outputs=1)
IN_FLOAT32 = RunSettings(precision="float32")  # so small a model gains nothing from less
DIGITS = 6  # of a mean or a deviation that are kept


@dataclass(frozen=True, kw_only=True)
class TableData(DataSettings):
    """Rows of numbers: a .csv or .tsv file, or the built-in sine."""

    path: FilePath = SINE
    validation_fraction: Fraction = 0.2
    target: str = setting("", "Column to predict; the last one if empty.", "price")
    standardize: bool = setting(True, "Whether inputs and targets are brought to mean zero and deviation one.", False)
    batch_size: Size = setting(256, "Rows in a batch.", 64)


@dataclass(frozen=True, kw_only=True)
class RegressSettings(Settings):
    """A model that predicts numbers from numbers."""

    data: TableData = TableData()
    recipe: Recipe = Recipe(
        steps=1500, learning_rate=3e-2, warmup_steps=100, evaluate_every=250, save_every=500, weight_decay=0.0
    )
    model: Config = SINE_MODEL
    run: RunSettings = IN_FLOAT32


def squared_error(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """Squared error summed over rows, where targets are standardized in units of their variance; and the rows."""
    predicted = model(*inputs).float()
    scale = model.config.target_std or (1.0,)
    loss = mean_squared_error(predicted, targets) * (len(targets) / scale[0] ** 2)
    return loss, torch.tensor(len(targets), device=targets.device)


def rows_of(model: Model, batch: Batch) -> int:
    """The rows of a batch, which take the place of tokens."""
    return len(batch["x"])


NUMBERS = Objective(inputs=("x",), targets="y", loss=squared_error, baseline=None, positions=rows_of)


@dataclass(frozen=True, kw_only=True)
class RegressionMetrics(Metrics):
    """A regression on rows of numbers; the mean squared error is in the units of the target.

    R² is left out where all targets are the same, and so have no variance to explain.
    """

    mean_squared_error: float
    r_squared: float | None
    rows: int


@dataclass(frozen=True)
class RowSet(EvaluationSet):
    """Rows of numbers to evaluate a model on."""

    batches: TableBatches

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> RegressionMetrics:
        """Loss, mean squared error and R²."""
        predicted = torch.cat(
            [_predicted(model, batch) for batch in progress(self.batches.once(), "batches evaluated")]
        )
        targets = torch.from_numpy(self.batches.y[:, 0])
        if record is not None:
            names = np.delete(np.array(self.batches.table.columns, dtype=object), self.batches.target)
            for x, y, guess in zip(self.batches.x, targets.tolist(), predicted.tolist(), strict=True):
                inputs = dict(zip(names.tolist(), x.tolist(), strict=True))
                record({"inputs": inputs, "target": y, "prediction": guess, "loss": (guess - y) ** 2})
        error = float(mean_squared_error(predicted[:, None], targets[:, None]))
        varied = len(targets) > 1 and bool((targets != targets[0]).any())
        scale = model.config.target_std or (1.0,)
        return RegressionMetrics(
            loss=error / scale[0] ** 2,
            mean_squared_error=error,
            r_squared=float(r_squared(predicted, targets)) if varied else None,
            rows=len(targets),
        )


@torch.no_grad()
def _predicted(model: Model, batch: Batch) -> Tensor:
    """What a model predicts for each row, in double precision."""
    with no_checks():
        return model(batch["x"].to(next(model.parameters()).device))[:, 0].double().cpu()


@dataclass(frozen=True)
class RowSample:
    """What a model predicts for the first validation row."""

    rows: RowSet

    def __call__(self, model: Model) -> str:
        """The inputs of the row, the prediction, and what was wanted."""
        batch = next(self.rows.batches.once())
        guess, wanted = float(_predicted(model, batch)[0]), float(batch["y"][0, 0])
        return f"{', '.join(f'{value:.4g}' for value in batch['x'][0].tolist())} → {guess:.4g} (wanted {wanted:.4g})"


class RegressTask(Task[RegressSettings]):
    """Train a model to predict a column of a table from the others."""

    settings = RegressSettings
    protocol = Regressor
    objective = NUMBERS
    built_in = SINE
    reads_text = False

    def read(self, settings: RegressSettings, part: task.Part) -> Iterator[NumberTable]:
        """The table of a part of the data."""
        path = vars(settings.data)[part]
        yield sine_table() if path == self.built_in else read_numbers(path)

    def prepare(self, settings: RegressSettings, context: DataContext) -> TaskData:
        """Read and split the rows."""
        data, seed = settings.data, settings.recipe.seed
        if settings.recipe.r_drop or settings.recipe.label_smoothing:
            raise ConfigError("recipe.r_drop and recipe.label_smoothing are for classes, wanted 0 for a regression")
        table = next(self.read(settings, "path"))
        target = table.target(data.target)
        if data.validation:
            validation = self._like(table, next(self.read(settings, "validation")))
        else:
            table, validation = _split(table, data, seed)
        test = self._like(table, next(self.read(settings, "test"))) if data.test else validation
        values = _config_values(table, target, data.standardize, context)

        def made(rows: NumberTable, name: str) -> TableBatches:
            shard = context.shard(len(rows.values), name, "rows")
            return TableBatches(rows, target, data.batch_size, seed, *shard)

        held = made(validation, "validation")
        return TaskData(
            None, made(table, "training"), held, RowSet(made(test, "test")), config_values=values,
            sample=RowSample(RowSet(held)),
        )  # fmt: skip

    def _like(self, table: NumberTable, other: NumberTable) -> NumberTable:
        """Another table with the same columns."""
        if other.columns != table.columns:
            raise DataError(
                f"{other.source}: has the columns {', '.join(other.columns)}, wanted {', '.join(table.columns)}, "
                f"those of {table.source}"
            )
        return other

    def evaluation_set(self, evaluated: EvaluatedModel, settings: RegressSettings) -> RowSet:
        """The rows of a table with as many columns as the model was trained on."""
        data, inputs = settings.data, evaluated.model.config.inputs
        table = next(self.read(settings, "path"))
        if len(table.columns) != inputs + 1:
            what = f"has {len(table.columns)} columns, wanted {inputs + 1}: {inputs} inputs and what to predict"
            raise DataError(f"{table.source}: {what}")
        if data.path == self.built_in:
            table = _split(table, data, settings.recipe.seed)[1]
        if not len(table.values):
            raise DataError(f"{table.source}: has no rows")
        return RowSet(TableBatches(table, table.target(data.target), evaluated.batch_size or ROWS_AT_ONCE))


def _split(table: NumberTable, data: TableData, seed: int) -> tuple[NumberTable, NumberTable]:
    """Rows for training, and a fraction of them for validation; copies stay on one side."""
    rows = [tuple(row) for row in table.values.tolist()]
    task.require_two(data.path, len(set(rows)), "different rows")
    train, validation = (np.array(part) for part in split(rows, data.validation_fraction, seed))
    return replace(table, values=train), replace(table, values=validation)


def _config_values(table: NumberTable, target: int, standardize: bool, context: DataContext) -> dict[str, object]:
    """The sizes of the model, and the means and deviations of the training rows that it computes between."""
    names, values = table.columns, table.values
    if not len(values):
        raise DataError(f"{table.source}: has no rows to train on")
    mean, std = values.mean(0), values.std(0)
    if not (values[:, target] != values[0, target]).any():
        raise DataError(
            f"{table.source}: {names[target]} is {values[0, target]:g} in every row, so there is nothing to learn; "
            "data.target names another column"
        )
    same = [name for name, column in zip(names, values.T, strict=True) if not (column != column[0]).any()]
    if same:
        context.report(f"the same in every row, so of no use: {', '.join(same)}")
    found: dict[str, object] = {"inputs": len(names) - 1, "outputs": 1}
    if known := context.config:
        return found | {name: vars(known)[name] for name in vars(known) if name.endswith(("_mean", "_std"))}
    if not standardize:
        return found
    parts = {"mean": mean, "std": np.where(std > 0, std, 1.0)}
    found |= {f"input_{name}": _rounded(np.delete(part, target)) for name, part in parts.items()}
    return found | {f"target_{name}": _rounded(part[[target]]) for name, part in parts.items()}


def _rounded(numbers: Float64[np.ndarray, " n"]) -> tuple[float, ...]:
    return tuple(float(f"{number:.{DIGITS}g}") for number in numbers)
