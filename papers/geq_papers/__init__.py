"""The experiments, theorems, bounds, baselines and benchmarks of the papers, on top of :mod:`geq`."""
