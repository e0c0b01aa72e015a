"""Fixed points z = f(z); knows nothing of problems."""
