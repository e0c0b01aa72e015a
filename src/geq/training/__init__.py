"""Training: one loop on Lightning, its options, its checkpoints, and the folder that a run leaves behind."""
