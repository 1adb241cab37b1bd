"""Proof that a fast layout trains the same model."""

from attune.recipe.schema import Check
from attune.verify.checks import check_convergence
from attune.verify.commands import read_command, worker_file
from attune.verify.components import check_of, component_checks, components_of
from attune.verify.configuration import check_configuration
from attune.verify.convergence import (
    FUNCTION_DEFAULTS,
    PIPELINE,
    ConvergenceResult,
    validate_convergence,
)
from attune.verify.flags import check_flags
from attune.verify.noise import Floor, layout_bound, noise_floor
from attune.verify.parity import check_parity, read_parity
from attune.verify.verdict import Verification, needed_checks, verdict, verify

__all__ = [
    "FUNCTION_DEFAULTS",
    "PIPELINE",
    "Check",
    "ConvergenceResult",
    "Floor",
    "Verification",
    "check_configuration",
    "check_convergence",
    "check_flags",
    "check_of",
    "check_parity",
    "component_checks",
    "components_of",
    "layout_bound",
    "needed_checks",
    "noise_floor",
    "read_command",
    "read_parity",
    "validate_convergence",
    "verdict",
    "verify",
    "worker_file",
]
