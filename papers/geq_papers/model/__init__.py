"""Feed-forward networks that the papers compare with, found through entry points."""
