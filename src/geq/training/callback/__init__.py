"""What happens around the training loop, one concern per file."""
