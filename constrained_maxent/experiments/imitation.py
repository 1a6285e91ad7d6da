"""The paper's imitation experiment: the point mass stays near an expert's occupancy."""

from __future__ import annotations

from os import PathLike

from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.references import Reference, shipped
from constrained_maxent.wrappers.terms import imitation


def point_mass_constraints(
    *, r_max: float | None, beta: float, reference: Reference | str | PathLike[str] | None
) -> dict[str, Constraint]:
    r""":math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}}) \le r_{\max}` under the name ``imitation``.

    Args:
        r_max: the limit [nats]; ``None`` for no constraint.
        beta: β of the quadratic penalty.
        reference: itself, or its file; ``None`` for the one that comes with the package.

    Raises:
        InvalidSetting: values out of range.
        DamagedReference: the file cannot be read.
    """
    if r_max is None:
        return {}
    if reference is None:
        reference = shipped("PointMass-v0")
    elif not isinstance(reference, Reference):
        reference = Reference.load(reference)
    return {"imitation": Constraint(imitation(reference, "kl", r_max), Quadratic(beta))}
