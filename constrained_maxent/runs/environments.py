"""Makes the environment of a run from its id and settings, and finds out which coordinates of it are the state."""

from __future__ import annotations

import difflib
import importlib
import inspect
import itertools
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled

from constrained_maxent.adapters import dm_control
from constrained_maxent.adapters.costs import TERMINATED, TerminationCost
from constrained_maxent.errors import (
    ConstrainedMaxentError,
    DuplicateName,
    InvalidSetting,
    MissingTracker,
    RedundantObservation,
)
from constrained_maxent.evaluation.state_measures import STATE_MEASURES
from constrained_maxent.functionals import Entropy, Functional, LinearCost
from constrained_maxent.functionals.config import functional_from_config
from constrained_maxent.occupancy import Counts, GaussianMixture, OccupancyEstimator
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.penalties import AdaptiveLagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.runs.settings import TrainSettings, json_object
from constrained_maxent.spaces import Environment
from constrained_maxent.tasks import PRESETS
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers import constrain
from constrained_maxent.wrappers.float_info import FloatInfo

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]

TRACKING = ("pairing", "episodes_per_batch", "steps_per_batch", "discount", "scale")
TERMS = ("preset", "beta", "limit", "memory")
BARE = ("objective", "constraint", "cost", "state", "periodic")
"""What only an environment without wrappers of its own is asked."""

_STEPS = 8192  # of a batch where observations are continuous
_PROBED = 16  # steps by which a bare environment is looked at
_MOST_COORDINATES = 64  # more would fill full covariances with more numbers than a batch has steps
_ON_CIRCLE = 1e-5  # greatest error of cos² + sin² = 1 in float32


def completed(env_id: str, settings: TrainSettings) -> TrainSettings:
    """The settings with the preset's numbers of batches and sub-environments, or 1000 and 8, where they say none.

    Raises:
        InvalidSetting: unknown id.
    """
    preset = PRESETS.get(find_spec(env_id).id, {}).get(settings.preset or "default")
    iterations, num_envs = (1000, 8) if preset is None else (preset.iterations, preset.num_envs)
    return replace(settings, iterations=settings.iterations or iterations, num_envs=settings.num_envs or num_envs)


def make_environment(env_id: str, settings: TrainSettings) -> VectorEnv:
    """The vector environment of a run; one that is not wrapped yet is wrapped with an objective and its constraints.

    The objective is the entropy, or the functional that ``settings.objective`` names; the constraints are the cost that
    the environment reports, and the functional that ``settings.constraint`` names, under its own name.

    Finite observations are counted. Of those in a ``Box``, λ̂ is a mixture over the state: ``info["state"]`` where the
    environment reports it, else the observation, or what ``settings.state`` takes of it.

    Raises:
        InvalidSetting: unknown id, or arguments that the environment does not take.
        UnsupportedSpace: its spaces cannot be counted.
        gymnasium.error.DependencyNotInstalled: the environment needs a package that is missing.
    """
    settings = completed(env_id, settings)
    tracking, terms = _given(settings, TRACKING), _given(settings, TERMS)
    if (penalty := settings.chosen_penalty()) is not None:
        terms["penalty"] = penalty.to_config()
    if "-PGP-" in find_spec(env_id).id:
        if superfluous := ", ".join(f"--{name}" for name in _given(settings, BARE)):
            raise InvalidSetting(f"{env_id} brings its own problem and state: leave out {superfluous}.")
        return _make(env_id, settings, **tracking, **terms)
    bare = _make(env_id, settings)
    try:
        if not _is_wrapped(bare):
            return _wrap(bare, settings, tracking)
        if given := [*tracking, *terms, *_given(settings, BARE)]:
            raise InvalidSetting(f"{env_id} brings its own wrappers: leave out {', '.join(given)}.")
    except BaseException:
        bare.close()
        raise
    return bare


def with_chosen_state(settings: TrainSettings, env: VectorEnv) -> TrainSettings:
    """The settings with the coordinates that the state of this environment was found to be, to be found only once."""
    layer: Any = env
    while layer is not None:
        source = getattr(layer, "_saved_kwargs", {}).get("state")
        if isinstance(source, Coordinates):
            return replace(settings, state=source.entries)
        layer = getattr(layer, "env", None)
    return settings


def lacks_cost(env_id: str, settings: TrainSettings, env: Environment) -> bool:
    """Whether ``make_environment`` found no cost to constrain, and no wrappers of the environment's own either."""
    if find_tracker(env).problem.constraints or "-PGP-" in find_spec(env_id).id:
        return False
    # One copy of the environment as it is registered tells whether the wrappers are its own.
    with closing(_make(env_id, replace(settings, num_envs=1))) as registered:
        return not _is_wrapped(registered)


def _given(settings: TrainSettings, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}


def find_spec(env_id: str) -> EnvSpec:
    """What is registered under an id, or under ``module:id`` once that module is imported; Shimmy's is known.

    Raises:
        InvalidSetting: nothing is, or the module cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    if name.startswith(f"{dm_control.NAMESPACE}/"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a window system, and warns where there is none
            _import("shimmy", f"Shimmy, which registers {name},")
    try:
        if module:
            _import(module, f"{module!r}, which should register {name},")
        return gym.spec(name)
    except gym.error.Error as error:
        similar = difflib.get_close_matches(name, gym.registry, n=3)
        hint = f"Did you mean {', '.join(similar)}?" if similar else "gymnasium.pprint_registry() lists all."
        raise InvalidSetting(f"There is no environment {env_id!r}. {hint}") from error


def _import(module: str, subject: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:  # a module that is missing, or no name of one
        raise InvalidSetting(
            f"{subject} cannot be imported: {error}. Modules in a folder that is not installed are found by "
            "PYTHONPATH=folder."
        ) from error


def _make(env_id: str, settings: TrainSettings, **stack: Any) -> VectorEnv:
    kwargs = settings.environment_kwargs()
    if twice := sorted(kwargs.keys() & {*stack, "num_envs"}):
        raise InvalidSetting(f"env-kwargs must not set {', '.join(twice)}: these are settings of their own.")
    ends = [TerminationCost] if settings.cost == TERMINATED else []
    if ends:
        kwargs.setdefault("vectorization_mode", "sync")  # each copy says how its episodes end
    mode, spec = kwargs.get("vectorization_mode"), find_spec(env_id)
    if mode in ("sync", "async") or (mode is None and spec.vector_entry_point is None):
        # Gymnasium stacks what the copies report, and would cut it.
        kwargs["wrappers"] = [*_upstream(spec), *ends, FloatInfo]
    with _refused(env_id, f"env-kwargs={settings.env_kwargs}"):
        return gym.make_vec(env_id, num_envs=settings.num_envs or 1, **kwargs, **stack)


def make_scalar(env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The scalar environment of an id, as it is; it raises what :func:`make_environment` does."""
    spec = find_spec(env_id)
    with _refused(env_id, f"arguments {json.dumps(dict(kwargs), default=repr)}"):
        env = gym.make(env_id, **kwargs)
        for wrapper in _upstream(spec):
            env = wrapper(env)
        return env


def _upstream(spec: EnvSpec) -> list[Any]:
    """Wrappers that do what an environment's own library leaves out."""
    return [dm_control.DmControlTask] if spec.namespace == dm_control.NAMESPACE else []


@contextmanager
def _refused(env_id: str, given: str) -> Iterator[None]:
    """Gives a name to what constructors raise at arguments that they do not like."""
    try:
        yield
    except (ConstrainedMaxentError, DependencyNotInstalled):
        raise
    except (TypeError, ValueError, LookupError, AssertionError, gym.error.Error) as error:
        raise InvalidSetting(f"{env_id} cannot be made with {given}: {type(error).__name__}: {error}") from error


def _is_wrapped(env: VectorEnv) -> bool:
    try:
        find_tracker(env)
    except MissingTracker:
        return False
    return True


def _wrap(bare: VectorEnv, settings: TrainSettings, tracking: dict[str, Any]) -> VectorEnv:
    if settings.preset is not None:
        raise InvalidSetting("preset belongs to -PGP- environments: give beta, limit and the others one by one.")
    if settings.discount == 1.0 and find_horizon(bare) is None:
        raise InvalidSetting(
            "Episodes of this environment have no last step, which --discount 1 needs: give one below 1, or a time "
            "limit by --env-kwargs."
        )
    # Counts tell which spaces they cannot count before the environment is stepped.
    counted = None if isinstance(bare.single_observation_space, gym.spaces.Box) else _over_cells(bare, settings)
    bare.reset(seed=0)
    bare.action_space.seed(0)
    steps = [bare.step(bare.action_space.sample()) for _ in range(_PROBED)]
    infos = steps[0][4]
    objective = _objective(settings.objective, of_cells=counted is None)
    penalty = settings.chosen_penalty() or (AdaptiveLagrangian() if settings.beta is None else Quadratic(settings.beta))
    constraints = {}
    if (key := _cost_key(infos, settings)) is not None:
        constraints["cost"] = Constraint(LinearCost(key, limit=settings.limit or 0.0), penalty)
    if settings.constraint is not None:
        name = settings.constraint.replace(":", ".").rpartition(".")[2]
        if name in constraints:
            raise DuplicateName(
                f"constraint={settings.constraint!r}: the environment's own cost has this name already."
            )
        constraints[name] = Constraint(find_functional("constraint", settings.constraint), penalty)
    chosen = counted
    if chosen is None:
        functionals = [objective or Entropy(), *(constraint.functional for constraint in constraints.values())]
        needs_density = any(functional.curvature != "affine" for functional in functionals)
        observations = [step[0] for step in steps]
        chosen = _over_density(bare, settings, observations, infos, needs_density=needs_density)
    wrapped: VectorEnv = constrain(bare, objective, constraints, **(chosen | tracking))
    return wrapped


SHARE = 0.01
"""Size of the cells whose entropy is maximized of densities, if nothing is said, in standard deviations."""


def _objective(given: str | None, *, of_cells: bool) -> Functional | None:
    """What ``--objective`` names or describes; by default the entropy, of densities that of cells."""
    if given is None:
        return Entropy(resolution=SHARE) if of_cells else None
    if given.lstrip().startswith("{"):
        return functional_from_config(json_object("objective", given, example='{"kind": "Entropy"}'))
    return find_functional("objective", given)


def find_functional(option: str, path: str) -> Functional:
    """The functional that an option names by ``module:Name``, or what a class or function of that name makes.

    Raises:
        InvalidSetting: no such module or name, or it is not, and does not make, a ``Functional``.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise InvalidSetting(f"{option}={path!r} must be module:Name, such as my_functionals:Coverage.")
    module = _import(module_name, f"{option}={path!r}: {module_name!r}")
    try:
        found: Any = attrgetter(name)(module)
    except AttributeError as error:
        raise InvalidSetting(f"{option}={path!r}: {error}.") from error
    if not isinstance(found, Functional) and callable(found):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise InvalidSetting(f"{option}={path!r} must be made without arguments: {error}.") from error
        found = found()
    if not isinstance(found, Functional):
        raise InvalidSetting(
            f"{option}={path!r} is a {type(found).__name__}: it must be a functionals.Functional, or a class or "
            "function without arguments that makes one."
        )
    return found


def _over_cells(bare: VectorEnv, settings: TrainSettings) -> dict[str, Any]:
    """Arguments of ``constrain`` for finite observations."""
    if given := ", ".join(f"--{name}" for name in _given(settings, ("state", "periodic"))):
        raise InvalidSetting(f"{given}: only observations in a Box have coordinates.")
    estimator = Counts(memory=settings.memory or 0.0)
    estimator.bind(bare.single_observation_space, bare.single_action_space)
    if settings.steps_per_batch is not None:
        return {"estimator": estimator}
    if settings.episodes_per_batch is None and find_horizon(bare) is None:  # episodes may have no end
        return {"estimator": estimator, "steps_per_batch": max(_STEPS, settings.num_envs or 1)}
    return {"estimator": estimator, "episodes_per_batch": max(8, settings.num_envs or 1)}


def _over_density(
    bare: VectorEnv,
    settings: TrainSettings,
    observations: list[Any],
    infos: Mapping[str, Any],
    *,
    needs_density: bool,
) -> dict[str, Any]:
    """Arguments of ``constrain`` for observations in a ``Box``."""
    rows = np.concatenate([values.reshape(bare.num_envs, -1) for values in observations]).astype(np.float64)
    n_coordinates = rows.shape[1]
    source: str | Coordinates | None = None
    angles = settings.periodic or ()
    if settings.state is not None:
        source = Coordinates(settings.state)
        source.check(n_coordinates)
    elif "state" in infos:
        source = "state"
        if settings.periodic is None and bare.spec is not None and bare.spec.id in STATE_MEASURES:
            angles = tuple(STATE_MEASURES[bare.spec.id].periodic or ())
    elif n_coordinates > _MOST_COORDINATES:
        raise InvalidSetting(
            f"The observation has {n_coordinates} coordinates, too many for a density of all: choose some by --state, "
            "for example --state 0 2."
        )
    elif pairs := circles(rows):
        source = without_redundancy(n_coordinates, pairs)
        if needs_density:
            listed = " and ".join(f"{i}, {j}" for i, j in pairs)
            warnings.warn(
                f"Coordinates {listed} of the observation look like cosine and sine of an angle, and such a pair has "
                f"no density: the state is taken to be --state {' '.join(source.entries)}. Give --state to choose.",
                RedundantObservation,
                stacklevel=2,
            )
    if isinstance(source, Coordinates):
        angles = tuple(sorted({*angles, *source.angles}))
    estimator: OccupancyEstimator = GaussianMixture(
        n_components=16, periodic=angles, memory=settings.memory or 0.0, buffer_size=2 * _STEPS
    )
    chosen: dict[str, Any] = {"estimator": estimator, "state": source, "suggestions": {"return_discount": 0.99}}
    if settings.episodes_per_batch is None:
        chosen["steps_per_batch"] = max(_STEPS, settings.num_envs or 1)
    if find_horizon(bare) is not None:
        chosen["discount"] = 1.0  # all states that are visited count alike
    return chosen


def _cost_key(info: Mapping[str, Any], settings: TrainSettings) -> str | None:
    """The key of a step's info that carries the cost; ``None`` for a run without a constraint."""
    key = settings.cost or "cost"
    if key in info:
        return key
    prices = (settings.beta, settings.penalty) if settings.constraint is None else ()
    if all(given is None for given in (settings.cost, settings.limit, *prices)):
        return None
    reported = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    raise InvalidSetting(
        f"This environment reports no info[{key!r}] (it reports: {reported}): name the key that carries the cost "
        "with --cost, or leave out --cost, --beta, --penalty and --limit to explore without a constraint."
    )


@dataclass(frozen=True)
class Coordinates:
    """The state as coordinates of an observation; a function of one observation, such as ``TrackOccupancy`` takes.

    Args:
        entries: each the number of a coordinate, from 0, or ``"i:j"``: the angle whose cosine is coordinate i and whose
            sine is j, in radians.

    Raises:
        InvalidSetting: no entries, or one that is neither.

    >>> Coordinates(("0:1", "2"))(np.array([0.0, 1.0, -3.0])).round(4)
    array([ 1.5708, -3.    ])
    """

    entries: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.entries:
            raise InvalidSetting("state must have at least one coordinate.")
        for entry in self.entries:
            parts = entry.split(":")
            if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
                raise InvalidSetting(
                    f"state={' '.join(self.entries)}: {entry!r} must be the number of a coordinate of the observation, "
                    "from 0, or cosine:sine, the numbers of two that belong to one angle, such as 0:1."
                )

    @property
    def numbers(self) -> list[list[int]]:
        """One or two coordinates of the observation for each of the state."""
        return [[int(part) for part in entry.split(":")] for entry in self.entries]

    @property
    def angles(self) -> tuple[int, ...]:
        """Which coordinates of the state are angles made of two."""
        return tuple(i for i, parts in enumerate(self.numbers) if len(parts) == 2)

    def check(self, n_coordinates: int) -> None:
        """Raise ``InvalidSetting`` if an observation of so many coordinates lacks one."""
        if max(itertools.chain(*self.numbers)) >= n_coordinates:
            raise InvalidSetting(
                f"state={' '.join(self.entries)}: the observation has only {n_coordinates} coordinates, from 0."
            )

    def __call__(self, observation: Any) -> FloatArray:
        flat = np.asarray(observation, dtype=np.float64).reshape(-1)
        return np.array([flat[i] if not j else math.atan2(flat[j[0]], flat[i]) for i, *j in self.numbers])


def circles(observations: FloatArray) -> list[tuple[int, int]]:
    """Pairs of coordinates on the unit circle in all ``(n, n_coordinates)``, as cosine and sine of one angle are.

    Coordinates that never change are in no pair.
    """
    free = np.flatnonzero(np.ptp(observations, axis=0) > 0.0).tolist()
    squares = observations**2
    found: list[tuple[int, int]] = []
    while free:
        i = free.pop(0)
        for j in free:
            if np.abs(squares[:, i] + squares[:, j] - 1.0).max() <= _ON_CIRCLE:
                found.append((i, j))
                free.remove(j)
                break
    return found


def without_redundancy(n_coordinates: int, pairs: Sequence[tuple[int, int]]) -> Coordinates:
    """All coordinates, with an angle in the place of each pair."""
    sine_of = dict(pairs)
    left = (i for i in range(n_coordinates) if i not in sine_of.values())
    return Coordinates(tuple(f"{i}:{sine_of[i]}" if i in sine_of else str(i) for i in left))
