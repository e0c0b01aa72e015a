"""Analysis of a model: theorems, bounds and measured behaviour."""
