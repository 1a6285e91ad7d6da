"""Makes the environment of a run from its id and settings."""

from __future__ import annotations

import difflib
import inspect
import json
import warnings
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode

from constrained_maxent.adapters import dm_control
from constrained_maxent.adapters.costs import TERMINATED, TerminationCost
from constrained_maxent.adapters.stacks import layers_of, tracking_of
from constrained_maxent.errors import (
    ConstrainedMaxentError,
    DuplicateName,
    InvalidSetting,
    MissingTracker,
)
from constrained_maxent.functionals import Entropy, Functional, LinearCost
from constrained_maxent.functionals.config import functional_from_config
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.penalties import AdaptiveLagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.runs.coordinates import Coordinates
from constrained_maxent.runs.imports import import_module, imported
from constrained_maxent.runs.settings import BARE, TrainSettings, json_object
from constrained_maxent.runs.states import VectorEnv, given_state, is_counted, over_cells, over_density
from constrained_maxent.spaces import Environment
from constrained_maxent.tasks import PRESETS
from constrained_maxent.tasks.stacks import make_stack
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import constrain
from constrained_maxent.wrappers.float_info import FloatInfo
from constrained_maxent.wrappers.replies import explained
from constrained_maxent.wrappers.vector import TrackOccupancy

TRACKING = ("pairing", "episodes_per_batch", "steps_per_batch", "discount", "scale")
TERMS = ("preset", "beta", "limit", "memory")
_OF_VECTORS = ("staggered_starts", "autoreset_mode", "vectorization_mode", "vector_kwargs", "threads")
"""Arguments that copies do not have."""

_PROBED = 16  # steps by which a bare environment is looked at


def completed(env_id: str, settings: TrainSettings) -> TrainSettings:
    """The settings with the preset's numbers of batches and sub-environments, or 1000 and 8, where they say none.

    Raises:
        InvalidSetting: unknown id.
    """
    preset = PRESETS.get(find_spec(env_id).id, {}).get(settings.preset or "default")
    iterations, num_envs = (1000, 8) if preset is None else (preset.iterations, preset.num_envs)
    return replace(settings, iterations=settings.iterations or iterations, num_envs=settings.num_envs or num_envs)


def make_environment(env_id: str, settings: TrainSettings, *, reported: Collection[str] | None = None) -> VectorEnv:
    """The vector environment of a run; one that is not wrapped yet is wrapped with an objective and its constraints.

    The objective is the entropy, or the functional that ``settings.objective`` names; the constraints are the cost that
    the environment reports, and the functional that ``settings.constraint`` names, under its own name.

    Finite observations are counted. Of others λ̂ is a mixture over the state: ``info["state"]`` where the environment
    reports it, else the observation; or over what ``settings.state`` takes of it, which ``settings.cells`` has counted.

    Args:
        env_id: any registered id.
        settings: of the run.
        reported: keys of info that may carry the cost, where the steps are none of this environment's; by default
            those that it reports itself.

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
            return wrap(bare, settings, reported=reported)
        if given := [*tracking, *terms, *_given(settings, BARE)]:
            raise InvalidSetting(f"{env_id} brings its own wrappers: leave out {', '.join(given)}.")
    except BaseException:
        bare.close()
        raise
    return bare


def with_chosen_state(settings: TrainSettings, env: VectorEnv) -> TrainSettings:
    """The settings with the coordinates that the state of this environment was found to be, to be found only once."""
    for layer in layers_of(env):
        source = getattr(layer, "_saved_kwargs", {}).get("state")
        if isinstance(source, Coordinates):
            return replace(settings, state=source.entries)
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
            import_module("shimmy", f"Shimmy, which registers {name},")
    try:
        if module:
            import_module(module, f"{module!r}, which should register {name},")
        return gym.spec(name)
    except gym.error.Error as error:
        similar = difflib.get_close_matches(name, gym.registry, n=3)
        hint = f"Did you mean {', '.join(similar)}?" if similar else "gymnasium.pprint_registry() lists all."
        raise InvalidSetting(f"There is no environment {env_id!r}. {hint}") from error


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


def make_copies(env_id: str, settings: TrainSettings, num_envs: int) -> VectorEnv:
    """The bare copies that a run's stack is around, each to be reset by hand, with a seed of its own.

    Raises:
        InvalidSetting: the environment is vectorized in a way that has neither; see :func:`make_environment` for more.
    """
    kwargs, spec = settings.environment_kwargs(), find_spec(env_id)
    given = {name: kwargs.pop(name, None) for name in _OF_VECTORS}
    mode, vector_kwargs = given["vectorization_mode"], {**(given["vector_kwargs"] or {}), "autoreset_mode": "Disabled"}
    is_stack = "-PGP-" in spec.id

    def made(**more: Any) -> VectorEnv:
        chosen = replace(settings, num_envs=num_envs, env_kwargs=json.dumps({**kwargs, **more}))
        made_so = _make(env_id, chosen, **(_given(settings, TERMS[:1]) if is_stack else {}))
        if not _is_wrapped(made_so):
            return made_so
        for layer in layers_of(made_so):
            layer.closed = True  # some versions of Gymnasium close a wrapper that is dropped, and all below it
            if isinstance(layer, TrackOccupancy):
                return layer.env
        raise AssertionError("it has one")

    if mode in (None, "vector_entry_point") and _takes_autoreset_mode(spec):
        with suppress(InvalidSetting):  # it may refuse this mode
            # Stacks would shorten first episodes, so that fragments of training are of all ages.
            native = made(autoreset_mode="Disabled", **({"staggered_starts": False} if is_stack else {}))
            if getattr(native.unwrapped, "seeds_each_copy", False):
                return native
            native.close()
    if is_stack:
        return gym.vector.SyncVectorEnv([partial(_bare_copy, env_id, kwargs)] * num_envs, autoreset_mode="Disabled")
    if spec.entry_point is None:
        raise InvalidSetting(
            f"{env_id} exists as a vector only, whose copies cannot be reset one by one, each with a seed of its own: "
            "register its scalar form as well."
        )
    copies = made(vectorization_mode=mode if mode in ("sync", "async") else "sync", vector_kwargs=vector_kwargs)
    if copies.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
        raise InvalidSetting(f"{env_id} resets its copies by itself: they cannot each have a seed of their own.")
    return copies


def _takes_autoreset_mode(spec: EnvSpec) -> bool:
    """Whether there is a vector of its own that may be asked. What fails in its constructor some versions of Gymnasium
    complain of once more as it is collected.
    """
    entry = spec.vector_entry_point
    if entry is None:
        return False
    parameters = inspect.signature(load_env_creator(entry) if isinstance(entry, str) else entry).parameters.values()
    return any(one.name == "autoreset_mode" or one.kind is one.VAR_KEYWORD for one in parameters)


def _bare_copy(env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """What a scalar -PGP- stack is around."""
    stack = gym.make(env_id, **kwargs)
    bare: gym.Env[Any, Any] = tracking_of(stack).env
    return bare


def bare_spec(env_id: str, settings: TrainSettings) -> EnvSpec | None:
    """The spec of the scalar environment below a run's stack, by which Gymnasium makes it again, or ``None``."""
    kwargs = {name: value for name, value in settings.environment_kwargs().items() if name not in _OF_VECTORS}
    if "-PGP-" not in (spec := find_spec(env_id)).id:
        limit = kwargs.pop("max_episode_steps", spec.max_episode_steps)
        made = replace(spec, kwargs={**spec.kwargs, **kwargs}, max_episode_steps=None if limit == -1 else limit)
        return None if spec.entry_point is None else made
    with closing(_bare_copy(env_id, kwargs)) as bare:
        own, spaces = gym.spec(f"{type(bare.unwrapped).__name__}-v0"), (bare.observation_space, bare.action_space)
    kwargs = {name: value for name, value in kwargs.items() if name not in inspect.signature(make_stack).parameters}
    # The stacks of walkers see the place, too.
    for more in ({}, {"exclude_current_positions_from_observation": False}):
        made = replace(own, kwargs={**own.kwargs, **more, **kwargs})
        with suppress(TypeError), closing(gym.make(made)) as again:
            if (again.observation_space, again.action_space) == spaces:
                return made
    return None


def make_scalar(env_id: str, kwargs: Mapping[str, Any], *, cost: str | None = None) -> gym.Env[Any, Any]:
    """The scalar environment of an id, as its copies are in vectors; it raises what :func:`make_environment` does."""
    spec = find_spec(env_id)
    with _refused(env_id, f"arguments {json.dumps(dict(kwargs), default=repr)}"):
        env = gym.make(env_id, **kwargs)
        for wrapper in [*_upstream(spec), *([TerminationCost] if cost == TERMINATED else [])]:
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


def wrap(bare: VectorEnv, settings: TrainSettings, *, reported: Collection[str] | None = None) -> VectorEnv:
    """The stack that ``cmaxent train`` puts around a vector environment without one; see :func:`make_environment`."""
    if settings.preset is not None:
        raise InvalidSetting("preset belongs to -PGP- environments: give beta, limit and the others one by one.")
    if settings.discount == 1.0 and find_horizon(bare) is None:
        raise InvalidSetting(
            "Episodes of this environment have no last step, which --discount 1 needs: give one below 1, or a time "
            "limit by --env-kwargs."
        )
    # What cannot be counted is told before the environment is stepped.
    source = given_state(settings, bare.single_observation_space)
    counted = is_counted(settings, source, bare.single_observation_space)
    chosen = over_cells(bare, settings, source) if counted else {}
    bare.reset(seed=0)
    bare.action_space.seed(0)
    steps = []
    try:
        for _ in range(_PROBED):
            steps.append(bare.step(bare.action_space.sample()))
            if bare.metadata.get("autoreset_mode") is AutoresetMode.DISABLED and any(map(any, steps[-1][2:4])):
                break
    except Exception as error:
        raise explained(error)  # noqa: B904  # it is the same one, or has it as its cause
    infos = steps[0][4]
    objective = _objective(settings.objective, of_cells=not counted)
    penalty = settings.chosen_penalty() or (AdaptiveLagrangian() if settings.beta is None else Quadratic(settings.beta))
    constraints = {}
    # What is reported now and then only is named by the first step that lacks it.
    who = "This environment" if reported is None else "The data set"
    if reported is None:
        reported = dict(ChainMap(*(step[4] for step in steps)))
    if (key := _cost_key(reported, settings, who)) is not None:
        constraints["cost"] = Constraint(LinearCost(key, limit=settings.limit or 0.0), penalty)
    if settings.constraint is not None:
        name = settings.constraint.replace(":", ".").rpartition(".")[2]
        if name in constraints:
            raise DuplicateName(
                f"constraint={settings.constraint!r}: the environment's own cost has this name already."
            )
        constraints[name] = Constraint(find_functional("constraint", settings.constraint), penalty)
    if not counted:
        functionals = [objective or Entropy(), *(constraint.functional for constraint in constraints.values())]
        needs_density = any(functional.curvature != "affine" for functional in functionals)
        observations = [step[0] for step in steps]
        chosen = over_density(bare, settings, source, observations, infos, needs_density=needs_density)
    wrapped: VectorEnv = constrain(bare, objective, constraints, **(chosen | _given(settings, TRACKING)))
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
    found = imported(option, path, example="my_functionals:Coverage")
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


def _cost_key(info: Collection[str], settings: TrainSettings, who: str) -> str | None:
    """The key of a step's info that carries the cost; ``None`` for a run without a constraint."""
    key = settings.cost or "cost"
    if key in info:
        return key
    prices = (settings.beta, settings.penalty) if settings.constraint is None else ()
    if all(given is None for given in (settings.cost, settings.limit, *prices)):
        return None
    reported = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    raise InvalidSetting(
        f"{who} reports no info[{key!r}] (it reports: {reported}): name the key that carries the cost "
        "with --cost, or leave out --cost, --beta, --penalty and --limit to explore without a constraint."
    )
