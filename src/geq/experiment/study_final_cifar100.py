"""Study, the answer: six networks of one size on CIFAR-100, clean and corrupted, five paired seeds.

    geq reproduce study-final-cifar100 --scale small

Time: 5 to 9 minutes of one core for a training at scale small, of which those of the ResNet and the MDEQ are
shared with geq-table-1b, and about 3 minutes for the corruptions of a run.

Nothing was chosen by these test images: what the earlier questions decided, they decided by others.
"""

from __future__ import annotations

from geq.experiment.study_final import final

EXPERIMENT = final("cifar100", "CIFAR-100", __doc__ or "")
