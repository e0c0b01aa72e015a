"""Study, the answer: six networks of one size on CIFAR-10, clean and corrupted, five paired seeds.

    geq reproduce study-final-cifar10 --scale small

Time: 4 to 10 minutes of one core for a training at scale small, and about 2 minutes for the corruptions of a
run.

Nothing was chosen by these test images: what the earlier questions decided, they decided by others.
"""

from __future__ import annotations

from geq_papers.experiment.study_final import final

EXPERIMENT = final("cifar10", "CIFAR-10", __doc__ or "")
