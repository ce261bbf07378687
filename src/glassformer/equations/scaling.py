"""Scaling laws, training compute, arithmetic intensity and KV-cache memory; a multiply-add is two FLOPs."""

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import not_negative, positive, whole


@equation(
    r"C = 6 N D",
    meaning="Training takes six floating-point operations (FLOPs) for each parameter and token.",
    intuition="Each token goes through each parameter once forward and twice back, with a product and a sum each time.",
    symbols={"parameters=N": "N, without embeddings", "tokens=D": "D, tokens seen", "C": "FLOPs"},
    where={"parameters tokens": positive},
)
def training_flops(parameters: float, tokens: float) -> float:
    """Estimate the FLOPs of a whole training run (Kaplan et al., 2020)."""
    return 6.0 * parameters * tokens


training_flops.def_cell(lambda index, parameters, tokens: f"6·{number(parameters)}·{number(tokens)}")


@equation(
    r"L(N, D) = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}",
    meaning="The loss falls as a power of the model's size and of the data, down to what no model can know.",
    intuition="A photograph gets sharper with a better lens and with more light, but never sharper than the scene.",
    symbols={
        "N": "parameters",
        "D": "training tokens",
        "E": "loss that stays, the entropy of text",
        "A": "what a small model loses",
        "B": "what little data loses",
        r"alpha=\alpha": "α, how fast size helps",
        r"beta=\beta": "β, how fast data helps",
        "L": "loss in nats per token",
    },
    where={"N D alpha beta": positive, "E A B": not_negative},
)
def scaling_law_loss(
    N: float,
    D: float,
    E: float = 1.69,
    A: float = 406.4,
    B: float = 410.7,
    alpha: float = 0.34,
    beta: float = 0.28,
) -> float:
    """Predict the loss of a language model, by default with Chinchilla's constants (Hoffmann et al., 2022)."""
    return E + A / N**alpha + B / D**beta


@scaling_law_loss.def_cell
def _scaling_law_loss_cell(
    index: tuple[int, ...], N: float, D: float, E: float, A: float, B: float, alpha: float, beta: float
) -> str:
    return f"{number(E)} + {number(A)}/{number(N)}^{number(alpha)} + {number(B)}/{number(D)}^{number(beta)}"


@equation(
    r"N = G \left(\frac{C}{6}\right)^{\frac{\beta}{\alpha + \beta}}, \quad "
    r"D = G^{-1} \left(\frac{C}{6}\right)^{\frac{\alpha}{\alpha + \beta}}, \quad "
    r"G = \left(\frac{\alpha A}{\beta B}\right)^{\frac{1}{\alpha + \beta}}",
    meaning="For a given amount of compute there is one best model size, and one best amount of data.",
    intuition="A fixed budget for a library: too many shelves leave no money for books, too many books no shelves.",
    symbols={
        "flops=C": "C, FLOPs to spend",
        "A": "what a small model loses",
        "B": "what little data loses",
        r"alpha=\alpha": "α, how fast size helps",
        r"beta=\beta": "β, how fast data helps",
        "N": "parameters",
        "D": "training tokens",
    },
    where={"flops A B alpha beta": positive},
)
def compute_optimal_size(
    flops: float, A: float = 406.4, B: float = 410.7, alpha: float = 0.34, beta: float = 0.28
) -> tuple[float, float]:
    """Find the size and the data of least predicted loss where C = 6ND (Hoffmann et al., 2022)."""
    G = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    N = G * (flops / 6) ** (beta / (alpha + beta))
    return N, (flops / 6) ** (alpha / (alpha + beta)) / G


@equation(
    r"L(C) = E + \frac{A}{C^a}",
    meaning="Where size and data grow together, the loss falls as a power of the compute.",
    intuition="A house gets warmer with every log on the fire, each a little less than the one before.",
    symbols={
        "C": "FLOPs of training",
        "E": "loss that stays, the entropy of text",
        "A": "what little compute loses",
        "a": "how fast compute helps",
        "L": "loss in nats per token",
    },
    where={"C a": positive, "E A": not_negative},
)
def compute_law_loss(C: float, E: float, A: float, a: float) -> float:
    """Predict the loss from the compute alone, for runs of one ratio of tokens to parameters (Kaplan et al., 2020)."""
    return E + A / C**a


compute_law_loss.def_cell(lambda index, C, E, A, a: f"{number(E)} + {number(A)}/{number(C)}^{number(a)}")


@equation(
    r"t = \frac{C}{3600 \, n R}",
    meaning="Training takes as long as its operations at the speed that all devices reach together.",
    intuition="A field, and how many mowers at what pace: the hours follow.",
    symbols={
        "flops=C": "C, FLOPs of the run",
        "flops_per_second=R": "R, FLOPs per second that one device reaches in training",
        "devices=n": "n, devices",
        "t": "hours",
    },
    where={"flops": not_negative, "flops_per_second": positive, "devices": whole},
)
def training_hours(flops: float, flops_per_second: float, devices: int = 1) -> float:
    """Hours that training takes on some devices, at the speed each of them reaches."""
    return flops / (3600.0 * devices * flops_per_second)


training_hours.def_cell(
    lambda index, flops, flops_per_second, devices: f"{number(flops)} / (3600·{devices}·{number(flops_per_second)})"
)


@equation(
    r"W = \frac{n P t}{1000} \, \text{PUE}",
    meaning="A run uses the power of its devices for as long as it lasts, and the data center adds its own share.",
    intuition="An oven's watts times the hours it is on, and the kitchen fan on top.",
    symbols={
        "hours=t": "t, hours of training",
        "watts=P": "P, power of one device under load",
        "devices=n": "n, devices",
        r"pue=\text{PUE}": "power usage effectiveness: all power of the data center over that of its computers",
        "W": "kilowatt-hours",
    },
    where={"hours": not_negative, "watts pue": positive, "devices": whole},
)
def training_energy(hours: float, watts: float, devices: int = 1, pue: float = 1.0) -> float:
    """Energy of a training run in kilowatt-hours, cooling included (Patterson et al., 2021)."""
    return devices * watts * hours / 1000.0 * pue


training_energy.def_cell(
    lambda index, hours, watts, devices, pue: f"{devices}·{number(watts)}·{number(hours)} / 1000 · {number(pue)}"
)


@training_energy.def_check
def _training_energy_check(pue: float) -> None:
    require = training_energy.require
    require(pue >= 1, "pue", pue, "at least 1: a data center uses all that its computers use")


@equation(
    r"I = \frac{\text{FLOPs}}{\text{bytes}}",
    meaning="How many floating-point operations are done for each byte that is moved.",
    intuition="A cook who fetches one carrot at a time spends the day walking; one who fetches a crate can cook.",
    symbols={r"flops=\text{FLOPs}": "FLOPs", r"bytes=\text{bytes}": "bytes read and written", "I": "FLOPs per byte"},
    where={"flops": not_negative, "bytes": positive},
)
def arithmetic_intensity(flops: float, bytes: float) -> float:
    """FLOPs per byte; below a machine's own ratio, memory bandwidth is the limit (roofline: Williams et al., 2009)."""
    return flops / bytes


arithmetic_intensity.def_cell(lambda index, flops, bytes: f"{number(flops)} / {number(bytes)}")


@equation(
    r"M = 2 L h_\text{kv} d_h n b",
    meaning="The KV cache holds one key and one value for each layer, head and token.",
    intuition="Minutes of a meeting: every speaker's words are kept, so nobody has to say them again.",
    symbols={
        "layers=L": "L, layers",
        r"kv_heads=h_\text{kv}": "h_kv, key-value heads",
        "head_dim=d_h": "d_h, dimension of a head",
        "length=n": "n, tokens cached",
        "bytes_per_number=b": "b, 2 for half precision",
        "batch=": "sequences at once, each with its own cache",
        "M": "bytes",
    },
    where={"layers kv_heads head_dim length bytes_per_number batch": whole},
)
def cache_bytes(
    layers: int, kv_heads: int, head_dim: int, length: int, bytes_per_number: int = 2, batch: int = 1
) -> int:
    """Memory of a KV cache in bytes (Pope et al., 2022)."""
    return 2 * layers * kv_heads * head_dim * length * bytes_per_number * batch
