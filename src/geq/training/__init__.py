"""Training: one loop on Lightning, its options, its checkpoints, and the folder of a run."""
