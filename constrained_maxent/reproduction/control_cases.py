"""What the studies of continuous control run: settings of ``cmaxent train``, by study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from constrained_maxent.agents import PGPSettings
from constrained_maxent.penalties import QuadraticContinuation
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.tasks.control import CARTPOLE_PRESETS

StudyName = Literal["cartpole", "cartpole-options", "cartpole-paper", "cartpole-paper-options", "point-mass"]

CARTPOLE, POINT_MASS = "SafeCartpole-PGP-v0", "PointMass-PGP-v0"


@dataclass(frozen=True)
class Case:
    """One setting, run with several seeds.

    Attributes:
        label: in tables, figures and names of folders.
        settings: of ``cmaxent train``; the seed is filled in.
    """

    label: str
    settings: TrainSettings


@dataclass(frozen=True)
class Study:
    """Cases that are shown together.

    Attributes:
        name: of the study.
        env_id: of all its runs.
        cases: in the order of tables.
        seeds: how many, unless something else is asked for.
        curves: columns of ``metrics.csv`` to draw, with what to write beside the axis.
        expert: environment whose shipped reference stands beside the cases, if any.
    """

    name: StudyName
    env_id: str
    cases: Sequence[Case]
    seeds: int
    curves: Mapping[str, str] = field(default_factory=dict)
    expert: str | None = None


def _settings(
    preset: Literal["default", "paper"], *, evaluate_every: int, agent: PGPSettings | None = None, **environment: Any
) -> TrainSettings:
    return TrainSettings(
        preset=preset,
        log_every=1,
        evaluate_every=evaluate_every,
        agent=agent or PGPSettings(),
        env_kwargs=json.dumps(environment),
    )


def _options() -> list[Case]:
    """The default preset at the limit that binds, and what it does with one of its choices undone."""

    def case(label: str, agent: PGPSettings | None = None, **environment: Any) -> Case:
        return Case(label, _settings("default", evaluate_every=5, agent=agent, slider_limit=1.5, **environment))

    continuation = QuadraticContinuation(30.0, 3000.0, iterations=CARTPOLE_PRESETS["default"]["iterations"])
    return [
        case("default"),
        case("one step a batch", PGPSettings(epochs=1, minibatch_size=0)),
        case("last iterate", PGPSettings(averaging=0.0)),
        case("whole returns", PGPSettings(gae_lambda=1.0)),
        case("beta 3000", beta=3000.0),
        case("beta 30 to 3000", penalty=continuation.to_config()),
        case("states of 1 batch", buffer_size=8000),
        case("states of 8 batches", buffer_size=64_000),
    ]


def _paper_options() -> list[Case]:
    """A tenth of the paper's run at the limit that binds, and what is beyond the paper added to it, one by one."""
    iterations = 240  # a million steps

    def case(label: str, agent: PGPSettings | None = None, **environment: Any) -> Case:
        settings = _settings("paper", evaluate_every=10, agent=agent, slider_limit=1.5, **environment)
        return Case(label, replace(settings, iterations=iterations))

    continuation = QuadraticContinuation(10.0, 3000.0, iterations=iterations)
    return [
        case("the paper's settings"),
        case("epochs, clipped ratio", PGPSettings(epochs=4, minibatch_size=1024, clip_range=0.2)),
        case("beta 10 to 3000", penalty=continuation.to_config()),
        case("occupancy memory 0.5", memory=0.5),
    ]


_STATES = {
    "state_entropy": "state entropy (nats)",
    "coverage": "share of grid cells",
}

STUDIES: Mapping[StudyName, Study] = {
    "cartpole": Study(
        "cartpole",
        CARTPOLE,
        [
            Case("limit 2.0", _settings("default", evaluate_every=5, slider_limit=2.0)),
            Case("limit 1.5", _settings("default", evaluate_every=5, slider_limit=1.5)),
            Case("limit 1.5, no penalty", _settings("default", evaluate_every=5, slider_limit=1.5, beta=0.0)),
        ],
        10,
        _STATES | {"share_pole_up": "share of steps with the pole up", "constraint_cost": "mean cost (m)"},
    ),
    "cartpole-options": Study(
        "cartpole-options",
        CARTPOLE,
        _options(),
        3,
        _STATES | {"share_pole_up": "share of steps with the pole up", "constraint_cost": "mean cost (m)"},
    ),
    "cartpole-paper": Study(
        "cartpole-paper",
        CARTPOLE,
        [Case("the paper's settings", _settings("paper", evaluate_every=20))],
        2,
        {"objective": "entropy of λ̂, plain mean (nats)", "self_weighted_objective": "the same, self-weighted (nats)"}
        | _STATES
        | {"share_pole_up": "share of steps with the pole up", "constraint_cost": "mean cost (m)"},
    ),
    "cartpole-paper-options": Study(
        "cartpole-paper-options",
        CARTPOLE,
        _paper_options(),
        3,
        _STATES | {"share_pole_up": "share of steps with the pole up", "constraint_cost": "mean cost (m)"},
    ),
    "point-mass": Study(
        "point-mass",
        POINT_MASS,
        [Case(f"r_max = {r_max}", _settings("default", evaluate_every=5, r_max=r_max)) for r_max in (2, 20, 200)],
        3,
        _STATES | {"constraint_imitation": "KL to the reference - r_max (nats)"},
        expert="PointMass-v0",
    ),
}
