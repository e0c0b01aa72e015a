"""The theorems of OptEq as executable checks on small dense instances, in float64.

``THEOREMS`` lists them, ``check_theorems(seed)`` runs them all; each file has the objects of one statement,
for instances of one's own. Where the printed statement is wrong, the docstring says so under *Erratum*.

>>> from geq_papers.theorem import check_theorem
>>> print(check_theorem("corollary-1", seed=0).claim)
for L = 2 the equilibrium minimises αM_{φ₁}^{1−α}(z₁) + αM_{φ₂}^{1−α}(z₀) + ½‖z₁ − z₀‖²
"""

from geq_papers.theorem.cell_conversion import cell_of, composition_of
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.conjugate import Conjugate, conjugate, objective, relu_objective
from geq_papers.theorem.corollary_1 import check_corollary_1, two_block_gradient, two_block_objective
from geq_papers.theorem.envelope import Envelope, envelope
from geq_papers.theorem.lemma_1 import FeedForward, UnitChain, check_lemma_1, rewrite
from geq_papers.theorem.lemma_2 import DeepWeights, check_lemma_2, contain
from geq_papers.theorem.lemma_3 import MultiBlock, check_lemma_3
from geq_papers.theorem.table_1 import (
    ChangedVariable,
    check_change_of_variable,
    check_multivariate_activation,
    check_skip_connection,
    multivariate_objective,
    skip_gradient,
    skip_objective,
)
from geq_papers.theorem.theorem_1 import check_theorem_1
from geq_papers.theorem.theorem_2 import check_theorem_2, inclusion_residual
from geq_papers.theorem.theorem_3 import Approach, approach, check_theorem_3, fitted_order, wide_unit
from geq_papers.theorem.theorem_4 import check_theorem_4, regularised_equilibrium
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.theorem_list import THEOREMS, Theorem, check_theorem, check_theorems
from geq_papers.theorem.unit_layer import Unit

__all__ = [
    "THEOREMS",
    "Approach",
    "ChangedVariable",
    "Comparison",
    "Composition",
    "Conjugate",
    "DeepWeights",
    "Envelope",
    "FeedForward",
    "MultiBlock",
    "Theorem",
    "TheoremCheck",
    "Unit",
    "UnitChain",
    "approach",
    "cell_of",
    "check_change_of_variable",
    "check_corollary_1",
    "check_lemma_1",
    "check_lemma_2",
    "check_lemma_3",
    "check_multivariate_activation",
    "check_skip_connection",
    "check_theorem",
    "check_theorem_1",
    "check_theorem_2",
    "check_theorem_3",
    "check_theorem_4",
    "check_theorems",
    "composition_of",
    "conjugate",
    "contain",
    "envelope",
    "fitted_order",
    "inclusion_residual",
    "multivariate_objective",
    "objective",
    "regularised_equilibrium",
    "relu_objective",
    "rewrite",
    "skip_gradient",
    "skip_objective",
    "two_block_gradient",
    "two_block_objective",
    "wide_unit",
]
