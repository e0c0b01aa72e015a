"""The bounds of the GEQ paper for a trained network: what ``geq analyze --only bounds`` adds."""
