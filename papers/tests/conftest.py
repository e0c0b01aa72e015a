"""Fixtures of the tests of geq that the tests of geq-papers use as well."""

from training.conftest import small

__all__ = ["small"]
