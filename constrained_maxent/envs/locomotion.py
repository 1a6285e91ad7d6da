"""What Gymnasium's walking robots have in common: their models, states, rewards, and what costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from constrained_maxent.envs.mujoco_model import MujocoStates, folded, mujoco
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray, check_count, is_number

UNITS = {"speed": "m/s", "tilt": "rad", "height": "m"}
"""What can cost, and the units of its threshold."""


@dataclass(frozen=True, kw_only=True)
class Robot:
    """What tells the walking robots apart, as numbers of Gymnasium's version 5.

    Attributes:
        xml: its model, in Gymnasium's ``envs/mujoco/assets``.
        is_planar: it has no y, no yaw and no roll.
        base_height: height of the torso where its coordinate is 0 [m].
        healthy_heights: of the torso, its coordinate [m].
        forward_weight, healthy_reward, control_weight: of the reward.
        noise: of first states; that of positions is uniform.
        velocities_are_normal: whether their noise is normal, or uniform too.
        time_limit: 100 steps [s], until a robot that moves at random has fallen; where it lies, no limit matters.
        limits: of what costs, by name; see ``benchmarks/locomotion_thresholds.py``.
    """

    xml: str
    is_planar: bool = False
    base_height: float = 0.0
    healthy_heights: tuple[float, float] = (-math.inf, math.inf)
    forward_weight: float = 1.0
    healthy_reward: float = 0.0
    control_weight: float
    noise: float
    velocities_are_normal: bool = True
    time_limit: float
    limits: dict[str, float]

    def model(self) -> Any:
        """Gymnasium's model."""
        with as_file(files("gymnasium") / "envs" / "mujoco" / "assets" / self.xml) as path:
            return mujoco.MjModel.from_xml_path(str(path))


HALF_CHEETAH = Robot(
    xml="half_cheetah.xml",
    is_planar=True,
    base_height=0.7,
    control_weight=0.1,
    noise=0.1,
    time_limit=5.0,
    limits={"speed": 0.8, "tilt": 1.0, "height": 0.57},
)
ANT = Robot(
    xml="ant.xml",
    healthy_heights=(0.2, 1.0),
    healthy_reward=1.0,
    control_weight=0.5,
    noise=0.1,
    time_limit=5.0,
    limits={"speed": 1.25, "tilt": 0.8, "height": 0.59},
)
HUMANOID = Robot(
    xml="humanoid.xml",
    healthy_heights=(1.0, 2.0),
    forward_weight=1.25,
    healthy_reward=5.0,
    control_weight=0.1,
    noise=0.01,
    velocities_are_normal=False,
    time_limit=1.5,
    limits={"speed": 1.0, "tilt": 1.5, "height": 0.2},
)


def functions(
    robot: Robot,
    *,
    costs: Sequence[str] = ("speed", "tilt"),
    speed_limit: float | None = None,
    tilt_limit: float | None = None,
    height_limit: float | None = None,
    terminate_when_unhealthy: bool = False,
    exclude_current_positions_from_observation: bool = True,
    time_limit: float | Literal["own"] | None = "own",
    frame_skip: int = 5,
    **engine: Any,
) -> tuple[dict[str, float], dict[str, Any]]:
    """The thresholds of what costs, and the arguments of a ``MujocoVectorEnv``; see ``walkers.VectorSettings``.

    Raises:
        InvalidSetting: a cost that there is not, or a threshold that is no positive number.
    """
    if isinstance(costs, str) or not costs or not set(costs) <= UNITS.keys() or len(set(costs)) < len(costs):
        raise InvalidSetting(f"costs={costs!r} must be a sequence of one or more of {', '.join(UNITS)}.")
    given = {"speed": speed_limit, "tilt": tilt_limit, "height": height_limit}
    for name, limit in given.items():
        if limit is not None and not (is_number(limit) and 0.0 < limit < math.inf):
            raise InvalidSetting(f"{name}_limit={limit!r} must be a positive number [{UNITS[name]}].")
    limits = {name: float(limit if (limit := given[name]) is not None else robot.limits[name]) for name in costs}
    for option in (terminate_when_unhealthy, exclude_current_positions_from_observation):
        if not isinstance(option, (bool, np.bool_)):
            raise InvalidSetting(
                f"terminate_when_unhealthy={terminate_when_unhealthy!r} and exclude_current_positions_from_observation="
                f"{exclude_current_positions_from_observation!r} must be True or False."
            )
    if terminate_when_unhealthy and robot is HALF_CHEETAH:
        raise InvalidSetting("terminate_when_unhealthy=True: to Gymnasium a half cheetah is always healthy.")
    model = robot.model()
    hidden = (1 if robot.is_planar else 2) if exclude_current_positions_from_observation else 0
    arguments = {
        "model": model,
        "observation": partial(observation, hidden=hidden),
        "observation_space": gym.spaces.Box(-np.inf, np.inf, (model.nq + model.nv - hidden,), dtype=np.float64),
        "start": partial(draw_start, robot=robot, rest=model.qpos0.copy(), n_velocities=int(model.nv)),
        "reward": partial(
            reward, robot=robot, timestep=float(model.opt.timestep) * check_count("frame_skip", frame_skip)
        ),
        "cost": partial(cost, robot=robot, limits=limits),
        "state": partial(state, robot=robot),
        "terminated": partial(is_unhealthy, robot=robot) if terminate_when_unhealthy else None,
        "time_limit": robot.time_limit if time_limit == "own" else time_limit,
        "frame_skip": frame_skip,
        **engine,
    }
    return limits, arguments


def observation(states: MujocoStates, *, hidden: int) -> FloatArray:
    """Positions but the first, hidden ones, and velocities, ``(n, nq + nv - hidden)``."""
    return np.concatenate((states.qpos[:, hidden:], states.qvel), axis=1)


def state(states: MujocoStates, *, robot: Robot) -> dict[str, FloatArray]:
    """``torso``, its place and angles; and ``state``, these, the joints' angles and all velocities.

    In the plane the torso is at x, z [m] and turned by its pitch; in space at x, y, z, turned by yaw, pitch and roll
    [rad].
    """
    qpos = states.qpos
    if robot.is_planar:
        torso, joints = np.concatenate((qpos[:, :2], folded(qpos[:, 2:3])), axis=1), qpos[:, 3:]
    else:
        torso, joints = np.concatenate((qpos[:, :3], yaw_pitch_roll(qpos[:, 3:7])), axis=1), qpos[:, 7:]
    return {"state": np.concatenate((torso, joints, states.qvel), axis=1), "torso": torso}


def yaw_pitch_roll(quaternions: FloatArray) -> FloatArray:
    """Angles about z, then y, then x [rad], ``(n, 3)``, of orientations ``(n, 4)``, scalar first.

    >>> yaw_pitch_roll(np.array([[1.0, 0.0, 0.0, 1.0]])).round(4)
    array([[1.5708, 0.    , 0.    ]])
    """
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    return np.stack((yaw, pitch, roll), axis=1)


def measured(states: MujocoStates, *, robot: Robot) -> dict[str, FloatArray]:
    """Horizontal speed [m/s], tilt [rad] and height [m] of each torso, ``(n,)``."""
    qpos, qvel = states.qpos, states.qvel
    if robot.is_planar:
        speed, tilt, height = np.abs(qvel[:, 0]), np.abs(folded(qpos[:, 2])), qpos[:, 1]
    else:
        squares = np.square(qpos[:, 3:7])
        upright = 1.0 - 2.0 * (squares[:, 1] + squares[:, 2]) / squares.sum(axis=1)
        speed, tilt, height = np.hypot(qvel[:, 0], qvel[:, 1]), np.arccos(np.clip(upright, -1.0, 1.0)), qpos[:, 2]
    return {"speed": speed, "tilt": tilt, "height": robot.base_height + height}


def cost(
    states: MujocoStates, controls: FloatArray, *, robot: Robot, limits: dict[str, float]
) -> dict[str, FloatArray]:
    """1 for each torso that is too fast, too tilted or too low, by name, and their sum; ``(n,)`` each."""
    found = measured(states, robot=robot)
    costs = {
        f"cost_{name}": (found[name] < limit if name == "height" else found[name] > limit).astype(np.float64)
        for name, limit in limits.items()
    }
    return {"cost": np.sum(list(costs.values()), axis=0), **costs}


def is_unhealthy(states: MujocoStates, *, robot: Robot) -> Any:
    """Whether each torso is out of Gymnasium's healthy heights, bool ``(n,)``."""
    low, high = robot.healthy_heights
    height = states.qpos[:, 1 if robot.is_planar else 2]
    return (height < low) | (height > high)


def reward(
    states: MujocoStates, controls: FloatArray, next_states: MujocoStates, *, robot: Robot, timestep: float
) -> FloatArray:
    """Gymnasium's: the way forward in a step, life, and little control, ``(n,)``; without contacts."""
    forward = (next_states.qpos[:, 0] - states.qpos[:, 0]) / timestep
    alive = robot.healthy_reward * ~is_unhealthy(next_states, robot=robot)
    rewards: FloatArray = (
        robot.forward_weight * forward + alive - robot.control_weight * np.square(controls).sum(axis=1)
    )
    return rewards


def draw_start(
    generator: np.random.Generator, *, robot: Robot, rest: FloatArray, n_velocities: int
) -> tuple[FloatArray, FloatArray]:
    """Gymnasium's first state: the model's own with noise."""
    qpos = rest + generator.uniform(-robot.noise, robot.noise, size=len(rest))
    if robot.velocities_are_normal:
        return qpos, robot.noise * generator.standard_normal(n_velocities)
    return qpos, generator.uniform(-robot.noise, robot.noise, size=n_velocities)
