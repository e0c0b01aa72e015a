"""The 19 corruptions of CIFAR-10-C at five severities: apply, write to disk, read back.

Files of corrupted images are read and written by :mod:`geq.data.corruption.cifar_c`, which needs torch.
"""

from geq.data.corruption.corruption_registry import SEVERITIES, corrupt, corrupt_by, corruption_names

__all__ = ["SEVERITIES", "corrupt", "corrupt_by", "corruption_names"]
