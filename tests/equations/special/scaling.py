"""Arguments of the counts and the scaling laws."""

from tests.equations.drawing import Draw


def attention_parameters(draw: Draw) -> dict:
    head_dim, groups = draw.integer(1, 64), draw.integer(1, 8)
    heads = groups * draw.integer(1, 4)
    optional = {"head_dim": draw.choose(None, head_dim, 2 * head_dim), "kv_heads": draw.choose(None, groups)}
    return {"dim": heads * head_dim, "heads": heads, "bias": draw.choose(True, False)} | optional


def feed_forward_parameters(draw: Draw) -> dict:
    flags = {"bias": draw.choose(True, False), "gated": draw.choose(True, False)}
    return {"dim": draw.integer(1, 1024), "ffn_dim": draw.integer(1, 4096)} | flags


def gpt_parameters(draw: Draw) -> dict:
    sizes = {"vocab": draw.integer(1, 50257), "context": draw.integer(1, 2048), "dim": draw.integer(1, 1600)}
    return sizes | {"layers": draw.integer(1, 96), "final_norm": draw.choose(True, False)}


def attention_macs(draw: Draw) -> dict:
    return {"queries": draw.integer(1, 2048), "keys": draw.integer(1, 2048), "dim": draw.integer(1, 1024)}


def projection_macs(draw: Draw) -> dict:
    return {"length": draw.integer(1, 2048), "dim": draw.integer(1, 1024)}


quadratic_fraction = projection_macs


def crossover_length(draw: Draw) -> dict:
    return {"dim": draw.integer(1, 12288)}


def layer_macs(draw: Draw) -> dict:
    return projection_macs(draw) | {"ffn_dim": draw.choose(None, 512, 11008)}


def model_macs(draw: Draw) -> dict:
    return layer_macs(draw) | {"layers": draw.integer(1, 96), "vocab": draw.choose(0, 50257)}


def training_flops(draw: Draw) -> dict:
    return {"parameters": draw.number(1e6, 1e12), "tokens": draw.number(1e6, 1e13)}


def scaling_law_loss(draw: Draw) -> dict:
    return {"N": draw.number(1e6, 1e12), "D": draw.number(1e6, 1e13)}


def compute_optimal_size(draw: Draw) -> dict:
    return {"flops": draw.number(1e15, 1e26)}


def arithmetic_intensity(draw: Draw) -> dict:
    return {"flops": draw.number(0.0, 1e15), "bytes": draw.number(1.0, 1e12)}


def cache_bytes(draw: Draw) -> dict:
    sizes = {"layers": draw.integer(1, 96), "kv_heads": draw.integer(1, 96), "head_dim": draw.integer(1, 128)}
    memory = {"length": draw.integer(1, 8192), "bytes_per_number": draw.choose(1, 2, 4)}
    return sizes | memory | {"batch": draw.integer(1, 8)}


def compute_law_loss(draw: Draw) -> dict:
    law = {"E": draw.number(0.0, 3.0), "A": draw.number(0.0, 1e4), "a": draw.number(0.05, 0.5)}
    return {"C": draw.number(1e12, 1e26)} | law


def training_hours(draw: Draw) -> dict:
    return {
        "flops": draw.number(0.0, 1e26), "flops_per_second": draw.number(1e9, 1e15), "devices": draw.integer(1, 4096)
    }  # fmt: skip


def training_energy(draw: Draw) -> dict:
    power = {"watts": draw.number(1.0, 1e3), "devices": draw.integer(1, 4096), "pue": draw.number(1.0, 2.0)}
    return {"hours": draw.number(0.0, 1e4)} | power
