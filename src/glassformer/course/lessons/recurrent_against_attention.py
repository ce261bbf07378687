"""Recurrent networks against attention."""

import torch

from glassformer.arithmetic import number
from glassformer.course.copy_task import CopyTask, fresh, gradient_by_position, training
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import tanh
from glassformer.equations.algebra import linear, scale
from glassformer.equations.losses import cross_entropy
from glassformer.equations.parameter_counts import attention_macs
from glassformer.models.gpt import GPTConfig
from glassformer.models.rnn import RNNConfig
from glassformer.recording import Tape

SHORT, LONG, FAR = 4, 48, 80  # gaps
UPDATES, RATE, ROWS, SEED = 80, 0.01, 16, 1


def _models(task: CopyTask) -> dict[str, GPTConfig | RNNConfig]:
    """An RNN and a Transformer that are trained in a second."""
    return {
        "RNN": RNNConfig(vocab=task.vocab, dim=8, hidden_dim=16, cell="rnn"),
        "Transformer": GPTConfig(vocab=task.vocab, context=task.length, dim=16, layers=1, heads=1),
    }


class RecurrentAgainstAttentionWalk(Walk):
    """What attention buys over a state that is carried from step to step: a short path, parallel steps, long memory."""

    @step(
        "A test of memory",
        like="Someone tells you a number at the door, talks about the weather, and asks for it at the end.",
    )
    def a_test_of_memory(self) -> None:
        """The copy task: a symbol to remember, a gap of blanks, then a question, at which the symbol must be recalled.
        Nothing in the gap helps. A model that guesses has the loss of a uniform distribution.
        """
        task = CopyTask(1, symbols=4, remembered=1)
        ids, symbols = task.batch(3, torch.Generator().manual_seed(0))
        names = [*"ABCD", "blank", "question"]
        columns = ("symbol", "gap", "question", "to recall")
        self.table(columns, [[*(names[i] for i in row), names[s]] for row, (s,) in zip(ids, symbols, strict=True)])
        guess = cross_entropy(self.tensor([[0.0] * task.vocab]), symbols[0])
        self.show(guess)
        self.claim("what is recalled is what was read first", (ids[:, 0] == symbols[:, 0]).all())

    @step(
        "The path of a gradient",
        like="A message whispered down a row of people: at each of them a little is lost.",
    )
    def the_path_of_a_gradient(self) -> None:
        """In a recurrent network the first symbol reaches the question through every state between them. Going back,
        the gradient is multiplied by the slope of each step; where slopes are below one it vanishes, where they are
        above one it explodes.
        """
        weight, start = self.tensor([[0.9]]), self.tensor([[1.0]])
        state, sizes = start, []
        for _ in range(LONG):
            state = tanh(linear(state, weight))
            sizes.append(self.back(state)[start].abs().max())
        self.show(state, (0, 0))
        self.plot(
            "gradient of a state with respect to the first one", {"RNN": (range(1, LONG + 1), sizes)}, "steps", True
        )
        self.less("every step makes it smaller", sizes[-1], sizes[0])
        self.less(f"after {LONG} steps less than a hundredth is left", sizes[-1], 0.01)

    @step(
        "The same in whole models",
        like="A phone call reaches a friend in another city as directly as one next door.",
    )
    def the_same_in_whole_models(self) -> None:
        """Attention connects the question with every earlier position directly: the path has one step, however long the
        gap. The gradient of the loss with respect to each input position shows it, for models with initial weights.
        """
        task = CopyTask(FAR, symbols=4, remembered=1)
        with self.unrecorded():
            norms = {
                name: gradient_by_position(fresh(c, SEED, torch.float64), task) for name, c in _models(task).items()
            }
        curves = {name: (range(task.length), (norm / norm[-1]).tolist()) for name, norm in norms.items()}
        self.plot("gradient at each input position, relative to the last", curves, "position", True)
        reached = {name: norm[0] / norm[-1] for name, norm in norms.items()}
        self.table(("model", "gradient at the first position over that at the last"), list(reached.items()))
        self.less("in the RNN almost nothing reaches the first position", reached["RNN"], 1e-5)
        self.less("in the Transformer much more does", 100 * reached["RNN"], reached["Transformer"])

    @step(
        "Steps that cannot be parallel",
        like="Sewing one long seam takes as long as it is; a hundred tailors sew a hundred short ones at once.",
    )
    def steps_that_cannot_be_parallel(self) -> None:
        """A state can be computed only after the one before it, so the equations of a recurrent network run one after
        the other, and a longer text takes more of them. A Transformer runs the same few equations on all positions
        at once: a longer text makes each larger, which a GPU computes in parallel.
        """
        counts: dict[str, list[int]] = {}
        gaps = (SHORT, LONG, FAR)
        for gap in gaps:
            task = CopyTask(gap, symbols=4, remembered=1)
            ids, _ = task.batch(1, torch.Generator().manual_seed(0))
            for name, config in _models(task).items():
                with Tape() as tape:
                    fresh(config, 0)(ids)
                counts.setdefault(name, []).append(len(tape.steps))
        self.table(("tokens", *counts), list(zip([gap + 2 for gap in gaps], *counts.values(), strict=True)))
        self.less("the longer the text, the more equations an RNN runs one after the other", *counts["RNN"][:2])
        self.claim("a Transformer runs the same number for every length", len(set(counts["Transformer"])) == 1)

    @step(
        "What it buys", like="Two students sit the same exam after the same hour of study: one remembers the beginning."
    )
    def what_it_buys(self) -> None:
        """Both are trained alike, for the same number of updates. Over a short gap both learn to recall. Over the
        longer one the RNN is still guessing, because hardly any gradient tells it what to keep.
        """
        found: dict[tuple[str, int], float] = {}
        with self.unrecorded():
            for gap in (SHORT, LONG):
                task = CopyTask(gap, symbols=4, remembered=1)
                for name, config in _models(task).items():
                    model = fresh(config, SEED, torch.float64)
                    for _ in training(model, task, UPDATES, RATE, ROWS, SEED):
                        pass
                    found[name, gap] = task.accuracy(model)
        self.table(("model", "gap", "symbols recalled"), [(*key, value) for key, value in found.items()])
        self.less("over the short gap the RNN recalls most symbols", 0.9, found["RNN", SHORT])
        self.less("over the long one it is far worse", found["RNN", LONG], 0.5)
        self.less(
            "the Transformer recalls most symbols over both", 0.9, min(found["Transformer", g] for g in (SHORT, LONG))
        )

    @step(
        "What it costs",
        like="A notebook of everything ever said is a safer memory than a head, and heavier to carry.",
    )
    def what_it_costs(self) -> None:
        """Attention keeps the keys and values of all positions and compares every pair of them; a recurrent state has
        the same size whatever the length. That is the price of the short path.
        """
        lengths, dim = (64, 128), 16
        macs = [attention_macs(n, n, dim) for n in lengths]
        self.show(macs[0])
        self.claim("twice the length, four times the work of comparing pairs", macs[1] == 4 * macs[0])
        self.table(
            ("tokens", "numbers a Transformer keeps per layer", "numbers an RNN keeps"),
            [(n, 2 * n * dim, dim) for n in lengths],
        )

    def quiz(self) -> None:
        """Questions on it."""
        slope, one = 0.5, self.tensor([1.0])
        self.ask(
            f"Every step of a recurrent network multiplies the gradient by {number(slope)}. What is left of a gradient "
            f"of {number(one[0])} after three steps?",
            lambda: scale(scale(scale(one, slope), slope), slope),
            "Multiply once for each step.",
            cell=(0,),
        )
        n, dim = 10, 4
        self.ask(
            f"How many multiply-adds does attention take for {n} tokens of dimension {dim}, scores and "
            "weighted sum together?",
            lambda: attention_macs(n, n, dim),
            "Every token meets every token twice: once for its score, once for its value.",
        )
