"""Power, retired claims and the forest plot: from the records of this repository, and from made ones."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from geq.cli import main
from geq_papers.experiment.claim import Claim, detectable, interval, judge, noncentrality
from geq_papers.experiment.experiment_registry import EXPERIMENTS, SUPERSEDED
from geq_papers.experiment.plan import usable
from geq_papers.report.evidence import Evidence, gather
from geq_papers.report.forest import POINTS, forest_png, forest_rows
from geq_papers.report.page import sections
from geq_papers.report.section.claim import Found, current, judged
from synthetic_records import record

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return gather(str(RESULTS), EXPERIMENTS, usable)


@pytest.mark.parametrize("number", [3, 5, 12])
def test_the_detectable_difference_is_found_four_times_in_five(number: int) -> None:
    random = np.random.default_rng(number)
    samples = random.standard_normal((20_000, number))
    mean = noncentrality(number) / number**0.5
    found = stats.ttest_1samp(samples + mean, 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=5 * (0.8 * 0.2 / 20_000) ** 0.5)


def test_the_detectable_difference_scales_with_the_spread() -> None:
    values = [1.0, 3.0, 2.0, 2.5]
    once = detectable(values)
    assert once is not None
    assert detectable([10 * value + 7 for value in values]) == pytest.approx(10 * once)
    mean, low, _ = interval(values)
    assert mean is not None
    assert low is not None
    assert once > mean - low, "what is found reliably is more than the interval's half width"
    assert detectable([1.0]) is None
    assert detectable([1.0, 1.0]) == 0


def test_no_verdict_before_all_seeds() -> None:
    claim = Claim("", "a", "b", "test_accuracy", seeds=5)
    records = [
        record("x", arm, seed, level) for arm, level in (("a", 90.0), ("b", 10.0)) for seed in range(4)
    ]
    found = judge(claim, records)
    assert found.low is not None
    assert found.low > 0
    assert (found.verdict, found.reason) == ("undecided at this scale", "4 paired seeds; a verdict needs 5")
    records += [record("x", arm, 4, level) for arm, level in (("a", 90.0), ("b", 10.0))]
    assert judge(claim, records).verdict == "holds"


def test_a_claim_is_retired_when_its_successor_has_decided(evidence: Evidence) -> None:
    found, kept = judged(evidence), current(evidence)
    retired = {(e.name, j.claim.better_arm, j.claim.worse_arm) for e, _, j in found} - {
        (e.name, j.claim.better_arm, j.claim.worse_arm) for e, _, j in kept
    }
    assert retired == set(SUPERSEDED), "both successors have decided"
    for (name, better, worse), later in SUPERSEDED.items():
        for one in (name, later):
            assert any((c.better_arm, c.worse_arm) == (better, worse) for c in EXPERIMENTS[one].claims)
    (table,) = (t for t in sections(evidence)[0].tables if t.name == "retired")
    assert len(table.rows) == len(found) - len(kept) == len(SUPERSEDED)


def test_a_claim_stays_while_its_successor_has_not_decided(evidence: Evidence) -> None:
    undecided = [one for one in evidence.groups if one.name not in SUPERSEDED.values()]
    early = Evidence(tuple(undecided), (), ())
    assert len(current(early)) == len(judged(early))


def row_of(found: list[Found], name: str, worse: str) -> Found:
    (one,) = (one for one in found if one[0].name == name and one[2].claim.worse_arm == worse)
    return one


def test_rows_are_what_the_claims_say(evidence: Evidence) -> None:
    found = current(evidence)
    rows = forest_rows(found)
    _, _, power = row_of(found, "study-power-cifar10", "mopteq")
    (row,) = (one for one in rows[POINTS] if one.where == "GEQ table 1a, twelve seeds" and one.published)
    assert (row.mean, row.low, row.high) == (power.mean, power.low, power.high)
    assert row.published == 1.0
    assert not any("OptEq table" in one.where.replace("MOptEq", "") for one in rows[POINTS])
    assert not any(one.where == "GEQ table 1a, 3 seeds" and "MOptEq" in one.text for one in rows[POINTS])


def test_an_incomplete_experiment_is_not_drawn(evidence: Evidence) -> None:

    found = current(evidence)
    experiment, scale, power = row_of(found, "study-power-cifar10", "mopteq")
    early = (experiment, scale, replace(power, seeds=power.seeds[:4]))
    assert forest_rows([early]) == {}
    assert forest_rows([(experiment, "smoke", power)]) == {}
    assert len(forest_rows([(experiment, scale, power)])[POINTS]) == 1


def test_the_command_writes_the_picture(evidence: Evidence, tmp_path: Path) -> None:
    picture = tmp_path / "forest.png"
    arguments = ["report", str(RESULTS), "--output", str(tmp_path / "r.html"), "--forest", str(picture)]
    assert main(arguments) == 0
    assert picture.read_bytes() == forest_png(current(evidence)), "the same records give the same bytes"
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The papers and we" in text
    assert "could find 0.67" in text


def test_the_picture_of_the_documentation_is_that_of_the_records(evidence: Evidence) -> None:
    """Its pixels, as another version of matplotlib writes another file."""

    shown = np.asarray(Image.open(RESULTS.parent / "docs" / "asset" / "forest.png").convert("L"), float)

    made = np.asarray(Image.open(io.BytesIO(forest_png(current(evidence)))).convert("L"), float)
    assert shown.shape == made.shape
    assert np.abs(shown - made).mean() < 1
