"""Attention over three tokens with every number shown: scores, weights, outputs, and one cell of each in arithmetic."""

import torch

import glassformer as gf

q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # what each token looks for
k = torch.tensor([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])  # what each token offers
v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])  # what each token says

with gf.tape() as tape:
    gf.equations.attention(q, k, v)

for step in tape.steps[0].children:
    equation = gf.catalog()[step.equation.name]
    print(f"{equation.name}: {equation.meaning}")
    print(f"  {equation.latex}")
    for row in step.output.tolist():
        print("  ", "  ".join(f"{value:7.4f}" for value in row))
    print(f"  first number: {equation.cell((0, 0), **step.inputs)}\n")
