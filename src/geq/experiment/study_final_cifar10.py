"""Study, the answer: six networks of one size on CIFAR-10, clean and corrupted, five paired seeds.

    geq reproduce study-final-cifar10 --scale small

Time: 5 to 9 minutes of one core for a training at scale small, of which those of the ResNet and the MDEQ are
shared with geq-table-1a, and about 3 minutes for the corruptions of a run.

Nothing was chosen by these test images: what the earlier questions decided, they decided by others.
"""

from __future__ import annotations

from geq.experiment.study_final import final

EXPERIMENT = final("cifar10", "CIFAR-10", __doc__ or "")
