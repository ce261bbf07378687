"""Speed side by side from Python: a suite of `glassformer bench` in its smallest sizes, and its rows."""

from glassformer.bench.options import BenchOptions
from glassformer.bench.suites import run_suite

options = BenchOptions(say=lambda text: None, rounds=3, tiny=True, only=("equal",), seed=1)
report = run_suite("translate", options)

print(f"{report.device}, torch {report.torch}")
for row in report.rows:
    beside = "" if row.ratio is None else f", ours is {row.ratio:.2f} times as fast, outputs {row.apart:.0e} apart"
    print(f"{row.runner}: {row.rate:,.0f} {row.unit}, spread {row.spread:.0%}{beside}")
