"""OptEq, table 10: semantic segmentation of street scenes.

    geq reproduce opteq-table-10 --scale small

Time: up to 10 minutes of one core for a run at scale small, on CamVid; at scale paper three days of one GPU
for a seed, on Cityscapes (see 'geq data fetch cityscapes').

The paper reports on Cityscapes (mIoU, mean class accuracy, pixel accuracy in %): FCN 71.47, 79.23, 95.56;
Deep OptEq 74.47, 81.91, 95.93.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, ExperimentScale, Metric
from geq_papers.experiment.geq_arms import PARAMETERS
from geq_papers.experiment.training_recipe import ONE_CORE, paper

MIOU = Metric("test_miou", "mIoU")
CLASSES, PIXELS = Metric("test_macc", "mAcc"), Metric("test_aacc", "aAcc")

CAMVID = {
    **ONE_CORE,
    "data": "camvid",
    "batch_size": 8,
    "augment": "crop_flip",
    "optimizer": "adamw",
    "learning_rate": 0.004,
    "weight_decay": 0.01,
    "clip": 5.0,
    "schedule": "poly",
    "power": 0.9,
}

EXPERIMENT = Experiment(
    name="opteq-table-10",
    title="Semantic segmentation",
    source="OptEq table 10",
    opening=__doc__ or "",
    arms={
        "fcn": Arm(
            "FCN",
            {
                "smoke": {"model": "fcn_camvid_small"},
                "small": {"model": "fcn_camvid_small"},
                "paper": {"preset": "paper/fcn_cityscapes"},
            },
        ),
        "opteq": Arm(
            "Deep OptEq",
            {
                "smoke": {"model": "opteq_camvid_small"},
                "small": {"model": "opteq_camvid_small"},
                "paper": {"preset": "paper/opteq_cityscapes"},
            },
        ),
    },
    metrics=(MIOU, CLASSES, PIXELS, PARAMETERS),
    published={
        "fcn": {MIOU.key: (71.47, None), CLASSES.key: (79.23, None), PIXELS.key: (95.56, None)},
        "opteq": {MIOU.key: (74.47, None), CLASSES.key: (81.91, None), PIXELS.key: (95.93, None)},
    },
    claims=(
        Claim("Deep OptEq has the higher mIoU", "opteq", "fcn", MIOU.key, 3.0),
        Claim("Deep OptEq has the higher mean class accuracy", "opteq", "fcn", CLASSES.key, 2.68),
        Claim("Deep OptEq has the higher pixel accuracy", "opteq", "fcn", PIXELS.key, 0.37),
    ),
    scales={
        "smoke": ExperimentScale(
            {**CAMVID, "train_size": 8, "epochs": 1, "warmup_epochs": 0.0},
            "eight images of CamVid: shows that it runs, nothing else",
            seeds=1,
        ),
        "small": ExperimentScale(
            {**CAMVID, "epochs": 12, "warmup_epochs": 1.0, "evaluate_every": 12},
            "CamVid at 240×180, 12 epochs, about 93 thousand parameters",
        ),
        "paper": paper("Cityscapes, 108 epochs, one GPU for each run"),
    },
)
