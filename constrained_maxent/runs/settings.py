"""What can be set about a training run. The command line is made from this class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from constrained_maxent.agents.settings import PGPSettings
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.occupancy import Scale
from constrained_maxent.penalties import Penalty, penalty_from_config
from constrained_maxent.tasks.presets import PresetName
from constrained_maxent.tracker import Pairing
from constrained_maxent.types import check_count, check_seed, is_number

BARE = ("objective", "constraint", "cost", "state", "cells", "periodic")
"""What only an environment without wrappers of its own is asked."""
WRITTEN = ("record", "log_every", "evaluate_every", "checkpoint_every", "checkpoint_minutes")
"""Settings that say what is written down, and change nothing of what is learnt."""
PROBLEM = ("preset", "limit", "discount", "scale", "env_kwargs", *BARE)
"""Settings that say what is stepped and what is measured, and not how it is learnt."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training run."""

    iterations: int | None = None
    """Batches to train on. Default: those of the environment's preset; 1000 where there is none."""
    seed: int = 0
    """Seed of everything random."""
    num_envs: int | None = None
    """Sub-environments that run in parallel. Default: those of the environment's preset; 8 where there is none."""

    preset: PresetName | None = None
    """Named settings of a -PGP- environment; what is given here goes before them."""
    pairing: Pairing | None = None
    """Which estimate goes with which reward: "same", "split" (Algorithm 1) or "previous"."""
    beta: float | None = None
    """β of the quadratic penalty."""
    penalty: str | None = None
    """Another penalty instead, as a JSON object with its kind and arguments:
    '{"kind": "Lagrangian", "learning_rate": 0.001}'."""
    limit: float | None = None
    """Budget of the cost; of PointMass-PGP-v0, the largest KL divergence from its reference [nats]."""
    episodes_per_batch: int | None = None
    """Size of a batch in episodes; at least num-envs."""
    steps_per_batch: int | None = None
    """Size of a batch in steps, instead."""
    discount: float | None = None
    """γ of the occupancy."""
    scale: Scale | None = None
    """Scale of the occupancy: "normalized" or "truncated"."""
    memory: float | None = None
    """Share of the old occupancy estimate that each fit keeps, in [0, 1)."""
    objective: str | None = None
    """What to maximize in an environment without wrappers of its own: module:Name of a functional, or of what makes one
    when it is called; or a JSON object, '{"kind": "Entropy", "resolution": 0.05}'. Default: the entropy, of continuous
    states with a resolution of 0.01."""
    constraint: str | None = None
    """module:Name of a functional of your own to keep below its limit, for such an environment; beta or penalty
    enforces it."""
    cost: str | None = None
    """Key of info that carries the cost, for an environment without wrappers of its own; "cost" if it is there.
    "terminated" is 1 where the environment ends an episode by itself."""
    state: tuple[str, ...] | None = None
    """What λ̂ is over in such an environment: numbers of coordinates of the flattened observation, from 0, where 0:1 is
    the angle with cosine 0 and sine 1; or keys of a Dict observation; or one key of info; or module:function of one
    observation. Default: the whole observation, or info["state"] if it is there and observations are not finite."""
    cells: tuple[int, ...] | None = None
    """Of a state that is a cell, whole numbers from 0: how many each of them can be, such as 12 8."""
    periodic: tuple[int, ...] | None = None
    """Coordinates of that state that are angles in radians."""
    env_kwargs: str = "{}"
    """Further arguments of the environment, as a JSON object: '{"map_name": "8x8"}'."""

    agent: PGPSettings = field(default_factory=PGPSettings)
    """The agent."""

    record: str | None = None
    """Name of a Minari data set that every transition of the training goes into, with its iteration: lake/paid-v0."""

    log_every: int = 10
    """Iterations between rows of metrics.csv; at first, where most changes, there are more."""
    evaluate_every: int = 100
    """Iterations between evaluations, more at first: exact ones where the environment is finite and known, or of
    continuous states."""
    checkpoint_every: int = 1000
    """Iterations between checkpoints."""
    checkpoint_minutes: float = 5.0
    """Minutes after which the next iteration that ends is a checkpoint too, however few there are."""

    def __post_init__(self) -> None:
        # NumPy's whole numbers are no plain data.
        object.__setattr__(self, "seed", check_seed("seed", self.seed))
        for name in ("iterations", "num_envs", "log_every", "evaluate_every", "checkpoint_every"):
            if (value := getattr(self, name)) is not None or name not in ("iterations", "num_envs"):
                object.__setattr__(self, name, check_count(name.replace("_", "-"), value))
        if not (is_number(self.checkpoint_minutes) and self.checkpoint_minutes >= 0.0):
            raise InvalidSetting(f"checkpoint-minutes={self.checkpoint_minutes!r} must be a number of at least 0.")
        for name in ("beta", "limit", "discount", "memory"):
            if (value := getattr(self, name)) is not None and not is_number(value):
                raise InvalidSetting(f"{name}={value!r} must be a number.")
        for name in ("state", "cells", "periodic"):
            if (value := getattr(self, name)) is not None:
                if isinstance(value, str) or not isinstance(value, Sequence):
                    raise InvalidSetting(f"{name}={value!r} must be a list.")
                # JSON has no tuples; equal settings must compare equal after a round trip.
                object.__setattr__(self, name, tuple(value))
        for name in ("objective", "constraint", "cost", "record"):
            if (value := getattr(self, name)) is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name}={value!r} must be text.")
        self.environment_kwargs()
        if self.beta is not None and self.penalty is not None:
            raise InvalidSetting("beta is that of a quadratic penalty: give it or penalty, not both.")
        self.chosen_penalty()

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``from_json`` of it equals the settings."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> TrainSettings:
        """The settings that ``to_json`` described.

        Raises:
            InvalidRun: names that are not settings, or values out of range.
        """
        unknown = set(content) - {entry.name for entry in fields(cls)}
        if unknown:
            raise InvalidRun(f"config.json has settings that do not exist: {', '.join(sorted(unknown))}.")
        try:
            return cls(**{**content, "agent": PGPSettings(**content.get("agent", {}))})
        except (TypeError, InvalidSetting) as error:
            raise InvalidRun(f"config.json has settings that make no sense: {error}") from error

    def environment_kwargs(self) -> dict[str, Any]:
        """The arguments of ``env_kwargs``, parsed. Raises InvalidSetting if they are not a JSON object."""
        return json_object("env-kwargs", self.env_kwargs, example='{"horizon": 50}')

    def chosen_penalty(self) -> Penalty | None:
        """The penalty that ``penalty`` describes, if it is given.

        Raises:
            InvalidSetting: it is no JSON object, of no kind that there is, or with arguments that it does not take.
        """
        if self.penalty is None:
            return None
        example = '{"kind": "Lagrangian", "learning_rate": 0.001}'
        return penalty_from_config(json_object("penalty", self.penalty, example=example))


def json_object(option: str, text: str, *, example: str) -> dict[str, Any]:
    """The object that an option of the command line describes.

    Raises:
        InvalidSetting: it is not JSON, or not an object.
    """
    try:
        content = json.loads(text)
    except TypeError:
        content = None
    except json.JSONDecodeError as error:
        raise InvalidSetting(
            f"{option}={text!r} is not JSON: {error}. Give a JSON object, such as '{example}'."
        ) from error
    if not isinstance(content, dict):
        raise InvalidSetting(f"{option}={text!r} must be a JSON object, for example '{example}'.")
    return content
