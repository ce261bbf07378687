"""Decoding and the cache."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import add
from glassformer.equations.probability import log_softmax, softmax
from glassformer.equations.sampling import greedy, length_penalty, sample, temperature, top_k, top_p
from glassformer.equations.scaling import cache_bytes
from glassformer.lessons.walk import Walk, step
from glassformer.models.gpt import GPT, GPTConfig

NEXT = ("mat", "sofa", "roof", "moon")


class DecodingWalk(Walk):
    """From shares to words: the best, a drawn one, the best sentence; and never the same work twice."""

    @step("The best word, every time", like="Always ordering the dish of the day.")
    def best_word_every_time(self) -> None:
        """Greedy decoding takes the largest score and goes on. It is quick and repeatable, and it never says anything
        unexpected.
        """
        self.z = self.tensor([2.0, 1.5, 0.5, -1.0])
        self.shares = softmax(self.z)
        best = greedy(self.z)
        self.show(self.shares, (0,), columns=NEXT)
        self.show(best)
        self.say(f"The cat sat on the {NEXT[int(best)]}.")

    @step("Warmer, colder", like="Ice keeps its shape, water gives a little, steam goes everywhere.")
    def warmer_colder(self) -> None:
        """Dividing the scores by a temperature flattens the shares when it is high and sharpens them when it is low.
        At one nothing changes; near zero only the best is left.
        """
        rows = [(tau, *softmax(temperature(self.z, tau))) for tau in (0.25, 1.0, 4.0)]
        self.table(("temperature", *NEXT), rows)
        self.claim("the colder, the surer", rows[0][1] > rows[1][1] > rows[2][1])

    @step("Cut the tail", like="A shortlist before the vote.")
    def cut_the_tail(self) -> None:
        """Thousands of unlikely words together are likely. Keep only the few best, or the fewest that hold a given
        share, and what is left shares the whole.
        """
        few, most = softmax(top_k(self.z, 2)), softmax(top_p(self.z, 0.9))
        self.table(("", *NEXT), [("all", *self.shares), ("the two best", *few), ("nine tenths", *most)])
        self.claim("what was cut has no share", float(few[2:].sum()) == 0)
        self.same("the rest still sums to one", float(few.sum()), 1)

    @step("Draw", like="A roulette wheel with fields as wide as the shares.")
    def draw(self) -> None:
        """A word is drawn with the probability of its share. Over many draws the counts come out as the shares."""
        drawn = sample(self.shares.expand(4000, -1), torch.Generator().manual_seed(0))
        counts = torch.bincount(drawn, minlength=4).double() / len(drawn)
        self.table(("", *NEXT), [("share", *self.shares), ("drawn", *counts)])
        self.same("counts follow shares", counts, self.shares, within=0.03)

    @step("The best sentence", like="Chess: a player who looks two moves ahead lets a pawn go.")
    def best_sentence(self) -> None:
        """The best first word need not begin the best sentence. A beam keeps the best few beginnings and extends them
        all. Log-probabilities add up along a sentence, and a penalty keeps short ones from winning by being short.
        """
        first = log_softmax(self.tensor([1.0, 0.8]))
        second = log_softmax(self.tensor([[0.1, 0.0, 0.0], [3.0, 0.0, 0.0]]))
        sentences = add(first[:, None].expand(2, 3), second)
        self.show(sentences, (0, 0), (1, 0), rows=("begins with the best", "begins with the second"))
        winner = int(sentences.flatten().argmax()) // 3
        self.claim("greedy begins with the first word", int(first.argmax()) == 0)
        self.claim("the best sentence begins with the other", winner == 1)
        divisor = length_penalty(3, 0.6)
        self.show(divisor)

    @step("Do not work anything out twice", like="Reading on from a bookmark instead of from the first page.")
    def do_not_work_anything_out(self) -> None:
        """A causal model's rows for earlier tokens never change, so their keys and values are kept. Each new token
        brings one query and looks at what is kept. The scores are the same; the work is a fraction.
        """
        model = GPT(GPTConfig(vocab=6, context=16, dim=8, layers=2, heads=2)).double()
        model.reset(torch.Generator().manual_seed(0))
        ids = torch.tensor([[0, 1, 2, 3, 4, 5]])
        with torch.no_grad():
            whole = model(ids)
            cache = model.cache(1, 16)
            one_by_one = torch.cat([model(ids[:, i : i + 1], cache=cache) for i in range(ids.shape[1])], 1)
        self.same("token by token with the cache gives the same scores", whole, one_by_one)
        answer = self.worked("parallel-inference-claim")
        self.beside("parallel-inference-claim", generation_passes=answer.get("generation_passes", int))
        self.say(
            "Training sees a known text in one pass; writing takes a pass for each new token, with or without a cache."
        )

    @step(
        "What keeping costs",
        like="A desk covered with open books: nothing to look up again, and no room for coffee.",
    )
    def what_keeping_costs(self) -> None:
        """The price of the cache is memory: a key and a value for each layer, head and token. Sharing keys and values
        among heads makes it smaller.
        """
        size, shared = cache_bytes(32, 32, 128, 4096), cache_bytes(32, 8, 128, 4096)
        self.show(size)
        self.table(("heads of keys", "bytes for four thousand tokens"), [(32, size), (8, shared)])
        self.claim("a quarter of the heads, a quarter of the bytes", shared * 4 == size)

    def quiz(self) -> None:
        """Questions on it."""
        pair, tau = self.tensor([2.0, 0.0]), 2.0
        self.ask(
            f"Scores {number(pair[0])} and {number(pair[1])} at temperature {number(tau)}: what share has the first?",
            lambda: softmax(temperature(pair, tau)),
            "The scores are halved.",
            cell=(0,),
        )
        three = self.tensor([1.0, 1.0, -5.0])
        self.ask(
            f"Scores {', '.join(map(number, three))}, and only the two best are kept. What share has the first?",
            lambda: softmax(top_k(three, 2)),
            "Two equals share the whole.",
            cell=(0,),
        )
        layers, heads, width, tokens = 2, 4, 16, 100
        self.ask(
            f"{layers} layers, {heads} heads of width {width}, {tokens} tokens, two bytes a number: how many "
            "bytes of cache?",
            lambda: cache_bytes(layers, heads, width, tokens),
            "Twice, for key and value.",
            tolerance=0.5,
        )
