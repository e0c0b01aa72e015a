"""Networks around equilibria, their baselines, and the registry that names them."""
