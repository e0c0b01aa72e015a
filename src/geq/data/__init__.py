"""Real datasets, safe readers, transforms on batches and corruptions."""
