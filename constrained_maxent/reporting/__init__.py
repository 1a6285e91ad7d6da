"""What people look at: figures of what a policy does and of how it was trained, and films."""

from constrained_maxent.reporting.control import (
    action_arrows_figure,
    cartpole_motion_figure,
    cartpole_strip_figure,
    visit_maps_figure,
)
from constrained_maxent.reporting.curves import Curve, Panel, curves_figure
from constrained_maxent.reporting.grid import grid_occupancy_figure
from constrained_maxent.reporting.scenes import CartpoleScene, PointMassScene
from constrained_maxent.reporting.training import training_figure
from constrained_maxent.reporting.video import write_video

__all__ = [
    "CartpoleScene",
    "Curve",
    "Panel",
    "PointMassScene",
    "action_arrows_figure",
    "cartpole_motion_figure",
    "cartpole_strip_figure",
    "curves_figure",
    "grid_occupancy_figure",
    "training_figure",
    "visit_maps_figure",
    "write_video",
]
