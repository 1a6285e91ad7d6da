"""Checkpoints of Frank–Wolfe's mixtures: one file, written atomically, read without executing code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from constrained_maxent.agents import checkpoints
from constrained_maxent.agents.pool import Pool, columns
from constrained_maxent.agents.problem_description import describe_terms
from constrained_maxent.agents.rollouts import Environment, find_tracker
from constrained_maxent.agents.settings import PGPSettings
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting
from constrained_maxent.types import Batch

if TYPE_CHECKING:
    from constrained_maxent.agents.sampled_frank_wolfe import FrankWolfe

Agent = TypeVar("Agent", bound="FrankWolfe")


def save(path: str | PathLike[str], agent: FrankWolfe) -> None:
    """Write the agent; until the very end an earlier file of that name stays as it was."""
    checkpoints.write(
        path,
        {
            "agent": type(agent).__name__,
            "environment": checkpoints.describe(agent.env),
            "settings": json.dumps(asdict(agent.planner)),
            "planning_batches": agent.planning_batches,
            "evaluation_batches": agent.evaluation_batches,
            "steps": agent.steps,
            "seed": agent.seed,
            "iteration": agent.iteration,
            "timesteps": agent.timesteps,
            "weights": agent.weights,
            "problem": _problem(agent.env),
            "terms": describe_terms(agent.env),
            "policies": [policy.state_dict() for policy in agent.policies],
            "batches": [columns(batch) for batch in agent._pool.batches],
        },
    )


def load(path: str | PathLike[str], env: Environment, kind: type[Agent]) -> Agent:
    """An agent of the given class with the state of a checkpoint; the environment is as it was."""
    content = checkpoints.read(path)
    try:
        checkpoints.require_match(path, content, env, kind)
        agent = kind(
            env,
            PGPSettings(**json.loads(content["settings"])),
            planning_batches=content["planning_batches"],
            evaluation_batches=content["evaluation_batches"],
            steps=content["steps"],
            seed=content["seed"],
        )
        if content["problem"] != (here := _problem(env)):
            raise CheckpointMismatch(f"{path} is of the problem {content['problem']}, this environment of {here}.")
        _require_same_terms(path, content.get("terms"), env)
        batches = checkpoints.to_arrays(content["batches"])
        agent._pool = Pool(tuple(Batch(**batch) for batch in batches))
        agent.weights = np.array(checkpoints.to_arrays(content["weights"]), dtype=np.float64)
        if not len(agent.weights) == len(content["policies"]) == len(batches):
            raise ValueError("It has not as many weights and batches as policies.")
        for state in content["policies"]:
            policy = agent._make_planner(0).policy
            policy.load_state_dict(state)
            policy.changed()
            agent.policies.append(policy)
        agent.iteration, agent.timesteps = int(content["iteration"]), int(content["timesteps"])
    except (CheckpointMismatch, InvalidSetting):
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{path} lacks a part or holds one that does not fit: {error!r}.") from error
    return agent


def _require_same_terms(path: str | PathLike[str], there: Mapping[str, str] | None, env: Environment) -> None:
    """Each policy answers the λ̂ before it, and the weights are steps on f: of another f they say nothing."""
    if there is None:  # the file is older than this check
        return
    for name, here in describe_terms(env).items():
        if there.get(name) != here:
            raise CheckpointMismatch(
                f"{path} is of a problem whose {name} is {there.get(name)}; in this environment it is {here}. Build it "
                "as it was, or train anew."
            )


def _problem(env: Environment) -> str:
    """What the densities of the policies are of: the terms, and how steps are weighted."""
    tracker = find_tracker(env)
    assert tracker is not None, "FrankWolfe refuses an environment without one"
    weighting = tracker.weighting
    terms = ", ".join(tracker.problem.term_names)
    return f"{terms}; discount {weighting.discount:g}, horizon {weighting.horizon}, scale {weighting.scale}"
