"""Decoding and the KV cache."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add
from glassformer.equations.sampling import greedy, length_penalty, sample, temperature, top_k, top_p
from glassformer.equations.scaling import cache_bytes
from glassformer.equations.softmax import log_softmax, softmax
from glassformer.models.gpt import GPT, GPTConfig

NEXT = ("mat", "sofa", "roof", "moon")


class DecodingWalk(Walk):
    """From logits to text: greedy, sampled, the best sentence; and a cache so that no token is computed twice."""

    @step("Greedy: the most likely token", like="Always ordering the dish of the day.")
    def best_word_every_time(self) -> None:
        """Greedy decoding takes the token with the largest logit and goes on. It is quick, and the same prompt always
        gives the same text.
        """
        self.z = self.tensor([2.0, 1.5, 0.5, -1.0])
        self.probabilities = softmax(self.z)
        best = greedy(self.z)
        self.show(self.probabilities, (0,), columns=NEXT)
        self.show(best)
        self.claim("the largest logit is the most likely token", best == self.probabilities.argmax())
        self.say(f"The cat sat on the {NEXT[int(best)]}.")

    @step("Temperature", like="Ice keeps its shape, water gives a little, steam goes everywhere.")
    def warmer_colder(self) -> None:
        """Dividing the logits by a temperature flattens the probabilities when it is high and sharpens them when it is
        low. At temperature one nothing changes; near zero only the most likely token is left.
        """
        rows = {tau: softmax(temperature(self.z, tau)) for tau in (0.05, 0.25, 1.0, 4.0)}
        self.table(("temperature", *NEXT), [(tau, *row) for tau, row in rows.items()])
        tops = [float(row.max()) for row in rows.values()]
        self.claim("the lower the temperature, the larger the largest probability", tops == sorted(tops, reverse=True))
        self.same("at one nothing changes", rows[1.0], self.probabilities)
        self.less(f"at {number(min(rows))} almost only the most likely token is left", 0.999, tops[0])

    @step("Top-k and top-p", like="A shortlist before the vote.")
    def cut_the_tail(self) -> None:
        """Thousands of unlikely tokens together can outweigh the most likely one. Top-k keeps only the k most
        likely tokens, top-p the fewest that together reach a probability of p; then the rest is renormalized.
        """
        few, most = softmax(top_k(self.z, 2)), softmax(top_p(self.z, 0.9))
        self.table(("", *NEXT), [("all", *self.probabilities), ("top-k, two", *few), ("top-p, nine tenths", *most)])
        self.same("top-k leaves two tokens, and the others have probability zero", few[2:], 0.0, within=0.0)
        self.same("what is left still sums to one", torch.stack([few.sum(), most.sum()]), 1)
        kept = self.probabilities[most > 0]
        self.less(f"top-p keeps {len(kept)} tokens, which reach nine tenths together", 0.9, kept.sum())
        self.less("one fewer would not", kept[:-1].sum(), 0.9)
        tail = softmax(torch.cat([self.tensor([8.0]), torch.zeros(10000, dtype=torch.float64)]))
        self.less("ten thousand tokens with logit zero are together likelier than one with logit eight", tail[0], 0.5)

    @step("Sampling", like="A roulette wheel with fields as wide as the probabilities.")
    def draw(self) -> None:
        """The next token is drawn with its probability. Over many draws the frequencies approach the probabilities."""
        drawn = sample(self.probabilities.expand(4000, -1), torch.Generator().manual_seed(0))
        counts = torch.bincount(drawn, minlength=4).double() / len(drawn)
        self.table(("", *NEXT), [("probability", *self.probabilities), ("frequency", *counts)])
        self.same(
            f"over {len(drawn)} draws they differ by less than three percent", counts, self.probabilities, within=0.03
        )

    @step("Beam search: the best sentence", like="Chess: a player who looks two moves ahead lets a pawn go.")
    def best_sentence(self) -> None:
        """The most likely first token need not begin the most likely sentence. A beam keeps the best few beginnings and
        extends them all. Log-probabilities add up along a sentence, so every token makes it less likely; a length
        penalty keeps short sentences from winning by being short.
        """
        first = log_softmax(self.tensor([1.0, 0.8]))
        second = log_softmax(self.tensor([[0.1, 0.0, 0.0], [3.0, 0.0, 0.0]]))
        sentences = add(first[:, None].expand(2, 3), second)
        self.show(sentences, (0, 0), (1, 0), rows=("begins with the best", "begins with the second"))
        winner = int(sentences.flatten().argmax()) // 3
        self.claim("greedy begins with the first token", int(first.argmax()) == 0)
        self.claim("the best sentence begins with the other", winner == 1)
        lengths, totals = (2, 6), self.tensor([-2.0, -2.4])
        divisors = [length_penalty(length, 0.6) for length in lengths]
        self.show(divisors[1])
        penalized = totals / torch.tensor(divisors, dtype=torch.float64)
        self.table(
            ("tokens", "log-probability", "divided by the penalty"), zip(lengths, totals, penalized, strict=True)
        )
        self.claim("by log-probability alone the short one wins", totals[0] > totals[1])
        self.claim("divided by the penalty, the long one", penalized[1] > penalized[0])

    @step("The KV cache", like="Reading on from a bookmark instead of from the first page.")
    def do_not_work_anything_out(self) -> None:
        """In a causal model the keys and values of earlier tokens never change, so they are kept in a cache. Each new
        token brings one query, one key and one value. The logits are the same, and every token is computed only once.
        """
        model = GPT(GPTConfig(vocab=6, context=16, dim=8, layers=2, heads=2)).double()
        model.init_weights(torch.Generator().manual_seed(0))
        ids = torch.tensor([[0, 1, 2, 3, 4, 5]])
        with torch.no_grad():
            whole = model(ids)
            cache = model.new_cache(1, 16)
            one_by_one = torch.cat([model(ids[:, i : i + 1], cache=cache) for i in range(ids.shape[1])], 1)
        self.same("token by token with the cache gives the same logits", whole, one_by_one)
        count = ids.shape[1]
        with_it, without = count, sum(range(1, count + 1))
        self.less(f"for {count} tokens it computes {with_it} positions, without a cache {without}", with_it, without)
        answer = self.worked("parallel-inference-claim")
        self.beside("parallel-inference-claim", generation_passes=answer.get("generation_passes", int))
        self.say(
            "Training sees a known text in one pass; generating takes a pass for each new token, with or without a "
            "cache."
        )

    @step(
        "What the cache costs",
        like="A desk covered with open books: nothing to look up again, and no room for coffee.",
    )
    def what_keeping_costs(self) -> None:
        """The price of the cache is memory: a key and a value for each layer, head and token. In grouped-query
        attention several query heads share one head of keys and values, which makes the cache smaller.
        """
        tokens = 4096
        size, shared = cache_bytes(32, 32, 128, tokens), cache_bytes(32, 8, 128, tokens)
        self.show(size)
        self.table(("key and value heads", f"bytes for {tokens} tokens"), [(32, size), (8, shared)])
        self.claim("a quarter of the heads, a quarter of the bytes", shared * 4 == size)

    def quiz(self) -> None:
        """Questions on it."""
        pair, tau = self.tensor([2.0, 0.0]), 2.0
        self.ask(
            f"Logits {number(pair[0])} and {number(pair[1])} at temperature {number(tau)}: what is the probability of "
            "the first?",
            lambda: softmax(temperature(pair, tau)),
            "Divide the logits by the temperature first, then take their softmax.",
            cell=(0,),
        )
        three = self.tensor([1.0, 1.0, -5.0])
        self.ask(
            f"Logits {', '.join(map(number, three))}, and top-k keeps two. What is the probability of the first?",
            lambda: softmax(top_k(three, 2)),
            "Which two are left, and which of them is likelier?",
            cell=(0,),
        )
        layers, heads, width, tokens = 2, 4, 16, 100
        self.ask(
            f"{layers} layers, {heads} heads of width {width}, {tokens} tokens, two bytes a number: how many "
            "bytes of cache?",
            lambda: cache_bytes(layers, heads, width, tokens),
            "How many numbers are a key and a value of one token, in one head of one layer?",
            tolerance=0.5,
        )
