"""The 19 corruptions of CIFAR-10-C at five severities: apply, write to disk, read back."""

from geq.data.corruption.cifar_c import read_cifar_c, write_cifar_c
from geq.data.corruption.registry import SEVERITIES, corrupt, corrupt_by, corruption_names

__all__ = ["SEVERITIES", "corrupt", "corrupt_by", "corruption_names", "read_cifar_c", "write_cifar_c"]
