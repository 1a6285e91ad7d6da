"""What people look at: figures of what a policy does and of how it was trained."""

from constrained_maxent.reporting.curves import Curve, Panel, curves_figure
from constrained_maxent.reporting.grid import grid_occupancy_figure
from constrained_maxent.reporting.training import training_figure

__all__ = ["Curve", "Panel", "curves_figure", "grid_occupancy_figure", "training_figure"]
