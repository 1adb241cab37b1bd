"""Proof that a fast layout trains the same model."""

from attune.recipe.schema import Check
from attune.verify.checks import check_convergence
from attune.verify.configuration import check_configuration
from attune.verify.convergence import (
    FUNCTION_DEFAULTS,
    PIPELINE,
    ConvergenceResult,
    validate_convergence,
)
from attune.verify.verdict import Verification, needed_checks, verdict, verify

__all__ = [
    "FUNCTION_DEFAULTS",
    "PIPELINE",
    "Check",
    "ConvergenceResult",
    "Verification",
    "check_configuration",
    "check_convergence",
    "needed_checks",
    "validate_convergence",
    "verdict",
    "verify",
]
