"""Figures and films of what the policy of a run does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidRun, UnsupportedPolicy
from constrained_maxent.evaluation import exact_problem
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import Mixture, Scale
from constrained_maxent.oracle.published import first_copy
from constrained_maxent.references import Reference, shipped
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.recorder import exact_evaluation
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.states import VectorEnv
from constrained_maxent.runs.training import load_agent, load_config
from constrained_maxent.seeds import PICTURE, derived_reset_seed
from constrained_maxent.spaces import Environment, as_rows, single_spaces
from constrained_maxent.tracker import Tracker, find_tracker
from constrained_maxent.types import FloatArray, check_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from constrained_maxent.reporting.scenes import CartpoleScene, PointMassScene

N_EPISODES = 30  # fresh, behind a picture: the paper's number for the point mass
UNLIMITED_EPISODE = 10.0  # how much is shown of episodes without a time limit [s]


def draw_run(folder: RunFolder) -> list[Path]:
    """Write ``training.png`` and, where there is one, the picture of what the policy does into the folder.

    That is ``occupancy.png`` for a tabular policy on a lake; ``strip.png`` and ``motion.png`` for the cartpole, and
    ``visits.png`` and ``actions.png`` for the point mass, beside its reference, from 30 fresh episodes. Returns the
    files written.

    Raises:
        InvalidRun, DamagedCheckpoint, CheckpointMismatch: the folder does not hold a run that can be drawn.
    """
    # Imported late, like below: Matplotlib would slow down every command that draws nothing.
    from constrained_maxent.reporting.style import save_figure

    return [save_figure(figure, path) for path, figure in run_figures(folder).items()]


def run_figures(folder: RunFolder) -> dict[Path, Figure]:
    """The figures of a run by the files that :func:`draw_run` writes, with its errors."""
    env_id, settings = load_config(folder)
    metrics = folder.read_metrics()
    with closing(make_environment(env_id, settings)) as env:
        agent = load_agent(folder, env)
        try:
            figures = {
                folder.training_figure_path: _training(metrics, find_tracker(env), _references(folder), title=env_id)
            }
        except KeyError as error:
            raise InvalidRun(f"{folder.metrics_path} is damaged: it has no column {error}.") from error
        contradicted = folder.summary_path.exists() and folder.read_summary().get("no_exact") is not None
        title = f"{env_id}, iteration {agent.iteration}"
        if not contradicted and (occupancy := _occupancy(agent, title=title)) is not None:
            figures[folder.occupancy_figure_path] = occupancy
        return figures | _pictures(folder, env_id, settings, agent)


@dataclass(frozen=True, eq=False)
class Episodes:
    """Fresh episodes from their starts on, side by side; NaN from where one ended before the others.

    Attributes:
        states: physical states, the first and the one after each step, ``(n_episodes, n_steps + 1, n_state)``.
        actions: taken in all of them but the last, ``(n_episodes, n_steps, n_actions)``.
        timestep: between states [s].
    """

    states: FloatArray
    actions: FloatArray
    timestep: float


def roll_out(
    env_id: str,
    settings: TrainSettings,
    agent: PGP,
    *,
    act: Callable[[NDArray[Any], np.random.Generator], NDArray[Any]] | None = None,
    n_episodes: int = 1,
    seconds: float | None = None,
    seed: int,
) -> Episodes:
    """Fresh whole episodes on the cartpole or the point mass, of a run's policy or of what ``act`` does instead.

    There are ``n_episodes`` side by side, or as many as last so many ``seconds`` together; the agent is left as it is.
    """
    kwargs = {**settings.environment_kwargs(), "staggered_starts": False, "autoreset_mode": "NextStep"}
    limits: dict[str, Any] = {"episodes_per_batch": None, "steps_per_batch": None}
    fresh = replace(settings, env_kwargs=json.dumps(kwargs), **limits)
    bare: Any = agent.env.unwrapped
    timestep: float = bare.timestep
    if seconds is not None:
        n_episodes = max(1, math.ceil(seconds / (bare.horizon * timestep))) if bare.horizon else 1
    act = act or (lambda rows, rng: agent.policy.to_env(agent.policy.sample(rows, rng)))
    with closing(make_environment(env_id, replace(fresh, num_envs=n_episodes))) as env:
        n_steps = bare.horizon or math.ceil((seconds or UNLIMITED_EPISODE) / timestep)
        inner, rng = below_tracker(env, agent), np.random.default_rng(seed)
        observations, infos = inner.reset(seed=derived_reset_seed(inner, seed, 0, PICTURE))
        states, actions = [infos["state"]], []
        running = np.ones((n_episodes, 1), dtype=bool)
        for _ in range(n_steps):
            taken = act(as_rows(inner.single_observation_space, observations), rng)
            observations, _, terminated, truncated, infos = inner.step(taken)
            actions.append(np.where(running, taken, np.nan))
            states.append(np.where(running & ~infos["physics_error"][:, None], infos["state"], np.nan))
            running = running & ~(terminated | truncated)[:, None]
    return Episodes(np.stack(states, axis=1), np.stack(actions, axis=1), timestep)


def below_tracker(env: VectorEnv, agent: PGP) -> VectorEnv:
    """The environment without the wrappers that estimate the occupancy, for they would spend time on it.

    Raises:
        InvalidRun: a wrapper above them changes what the policy observes.
    """
    layer: Any = env
    inner: Any = env
    while "env" in layer.__dict__:
        # The wrappers of objective and constraints know the tracker as well; it belongs to the lowest of them.
        if "tracker" in layer.__dict__:
            inner = layer.env
        layer = layer.env
    if inner.single_observation_space != single_spaces(agent.env)[0]:
        raise InvalidRun(
            "The policy cannot act without the wrappers that track the occupancy: wrap observations below them."
        )
    below: VectorEnv = inner
    return below


def scene_of(env: Environment) -> CartpoleScene | PointMassScene | None:
    """The scene of a cartpole or a point mass; ``None`` for other environments."""
    bare: Any = env.unwrapped
    module = type(bare).__module__  # asking for the classes would load MuJoCo for every lake
    if module == "constrained_maxent.envs.cartpole":
        from constrained_maxent.reporting.scenes import CartpoleScene

        return CartpoleScene(model=bare.model, slider_limit=bare.slider_limit)
    if module == "constrained_maxent.envs.point_mass":
        from constrained_maxent.reporting.scenes import PointMassScene

        return PointMassScene(model=bare.model)
    return None


def _pictures(folder: RunFolder, env_id: str, settings: TrainSettings, agent: PGP) -> dict[Path, Figure]:
    """Cartpole and point mass: what the policy does in fresh episodes."""
    scene: Any = scene_of(agent.env)
    if scene is None:
        return {}
    from constrained_maxent import reporting

    episodes = roll_out(env_id, settings, agent, n_episodes=N_EPISODES, seed=settings.seed)
    name, timestep = f"iteration {agent.iteration}", episodes.timestep
    if isinstance(scene, reporting.CartpoleScene):
        strip = reporting.cartpole_strip_figure(scene, {name: episodes.states[0]}, timestep=timestep, title=env_id)
        motion = reporting.cartpole_motion_figure(
            {name: episodes.states}, timestep=timestep, slider_limit=scene.slider_limit, title=env_id
        )
        return {folder.strip_path: strip, folder.motion_path: motion}
    visits, advice = _expert(env_id, settings, agent, episodes)
    maps = reporting.visit_maps_figure(scene, {**visits, name: episodes.states}, title=env_id)
    moves = (episodes.states[:, :-1], episodes.actions)
    arrows = reporting.action_arrows_figure(scene, {name: moves}, reference=advice, title=env_id)
    return {folder.visits_path: maps, folder.actions_path: arrows}


def _expert(
    env_id: str, settings: TrainSettings, agent: PGP, episodes: Episodes
) -> tuple[dict[str, FloatArray], Callable[[Any], NDArray[Any]] | None]:
    """Where the reference goes from the same starts, and what it would do at observations, as far as it knows."""
    reference, rng = reference_of(agent.env), np.random.default_rng(settings.seed)
    bare: Any = agent.env.unwrapped
    if isinstance(reference, Reference):
        try:
            if single_spaces(agent.env)[0] != bare.single_observation_space:
                raise UnsupportedPolicy("Where a wrapper changes observations, they are not the states of the picture.")
            own = roll_out(env_id, settings, agent, act=reference.act, n_episodes=N_EPISODES, seed=settings.seed)
            return {"reference": own.states}, partial(reference.act, rng=rng, deterministic=True)
        except UnsupportedPolicy:  # it can be shown as a density of states, if not as a policy
            reference = reference.states
    if reference is None or reference.n_states != episodes.states.shape[-1]:
        return {}, None
    return {"reference": reference.sample(episodes.states[..., 0].size, rng).reshape(episodes.states.shape)}, None


def reference_of(env: Environment) -> Reference | Mixture | None:
    """What a run on the point mass imitates; without such a constraint, the expert that comes with the package.

    ``None`` where the constraint's reference is a function, which has neither states nor actions to show.
    """
    functionals = [constraint.functional for constraint in find_tracker(env).problem.constraints.values()]
    references = [functional.reference for functional in functionals if hasattr(functional, "reference")]
    if not references:
        return shipped("PointMass-v0")
    return next((reference for reference in references if isinstance(reference, Reference | Mixture)), None)


def _references(folder: RunFolder) -> dict[str, float]:
    """The optimum, if the run was certified."""
    certificate = folder.read_summary().get("certificate") if folder.summary_path.exists() else None
    if not certificate:
        return {}
    label = "optimum, time-dependent" if certificate["is_time_dependent"] else "optimum"
    return {label: float(certificate["optimum"])}


def _training(
    metrics: Mapping[str, FloatArray], tracker: Tracker, references: Mapping[str, float], *, title: str
) -> Figure:
    from constrained_maxent.reporting import training_figure

    problem, scale = tracker.problem, tracker.weighting.scale
    limits = {name: constraint.functional.limit for name, constraint in problem.constraints.items()}
    units = {name: unit_of(constraint.functional, scale) for name, constraint in problem.constraints.items()}
    iterations, objective, measured = metrics["iteration"], metrics["objective"], ~np.isnan(metrics["exact_objective"])
    exact: dict[str, Any] = {}
    if measured.any():
        values = {name: metrics[f"exact_constraint_{name}"][measured] + limit for name, limit in limits.items()}
        exact = {"exact_objective": metrics["exact_objective"][measured], "exact_constraints": values}
    return training_figure(
        iterations,
        objective,
        {name: metrics[f"constraint_{name}"] + limit for name, limit in limits.items()},
        limits=limits,
        exact_iterations=iterations[measured],
        **exact,
        references=references,
        label="objective" if problem.objective is None else _bracketed(problem.objective.label),
        units={name: unit for name, unit in units.items() if unit is not None},
        title=title,
    )


def _bracketed(label: str) -> str:
    """A name as axes have it, with its unit in brackets."""
    return label.replace("(", "[").replace(")", "]")


def unit_of(functional: Functional, scale: Scale) -> str | None:
    """What the values of a constraint are counted in, as far as it is known."""
    if functional.curvature == "affine":  # a sum of what each step costs
        return "per step" if scale == "normalized" else "per episode"
    _, bracket, unit = functional.label.rstrip(")").partition("(")
    return unit if bracket else None


def _occupancy(agent: PGP, *, title: str) -> Figure | None:
    from constrained_maxent.reporting import grid_occupancy_figure

    exact = exact_evaluation(exact_problem(agent.env)[0], agent)
    desc = None if exact is None else lake_of(agent.env, len(exact.occupancy))
    if exact is None or desc is None:
        return None
    scale = find_tracker(agent.env).weighting.scale
    return grid_occupancy_figure(desc, exact.occupancy, agent.policy_table(), scale=scale, title=title)


def lake_of(env: Environment, n_states: int) -> NDArray[np.bytes_] | None:
    """The map of an environment if it is a lake: letters S, F, H and G, one for each state."""
    # Other environments have a desc as well: Taxi's shows its streets.
    desc = np.asarray(getattr(first_copy(env), "desc", []))
    return desc if desc.size == n_states and np.isin(desc, [b"S", b"F", b"H", b"G"]).all() else None


@dataclass(frozen=True)
class Recording:
    """A film that was written.

    Attributes:
        path: of the file.
        n_frames: images in it.
        painter: ``"MuJoCo"``, ``"Matplotlib"`` or ``"environment"``.
        reason: why MuJoCo did not draw, where it might have been expected.
        last: the last image, uint8 ``(height, width, 3)``.
    """

    path: Path
    n_frames: int
    painter: str
    reason: str | None
    last: NDArray[np.uint8] = field(repr=False, compare=False)


def record_video(
    folder: RunFolder, *, seconds: float = 10.0, seed: int = 0, path: Path | None = None, fps: int = 25
) -> Recording:
    """Film fresh episodes of a run's policy, at true speed.

    Args:
        seconds: length of the film; after an episode's end comes the next one.
        path: the file, ``*.mp4``; by default ``video.mp4`` in the folder.
        fps: images for each second.

    Raises:
        InvalidSetting: seconds, seed, fps or the path's ending make no sense.
        InvalidRun: no run, or its environment cannot draw itself as images.
        DamagedCheckpoint, CheckpointMismatch: the checkpoint cannot be used.
        gymnasium.error.DependencyNotInstalled: there is no ffmpeg for imageio.
    """
    from constrained_maxent.reporting.video import MujocoFrames, film, number_of_frames, open_frames, write_video

    seed = check_seed("seed", seed)
    n_frames = number_of_frames(seconds, fps)
    target = folder.video_path if path is None else path
    last: list[NDArray[np.uint8]] = []
    env_id, settings = load_config(folder)
    with closing(make_environment(env_id, settings)) as env:
        agent = load_agent(folder, env)
        scene, can_draw = scene_of(env), "rgb_array" in env.metadata.get("render_modes", ())
        if scene is None:
            if not can_draw:
                raise InvalidRun(f"{env_id} cannot be filmed: it has no render mode 'rgb_array'.")
            images = _own_images(env_id, settings, agent, n_frames=n_frames, seed=seed, fps=fps)
            count = write_video(target, _remembered(images, last), fps=fps)
            return Recording(target, count, "environment", None, last[0])
        episodes = roll_out(env_id, settings, agent, seconds=seconds, seed=seed)
        courses = [states[np.isfinite(states).all(axis=1)] for states in episodes.states]
        frames, reason = open_frames(scene, scene.tracer_norm(episodes.states))
        with closing(frames):
            images = film(frames, courses, timestep=episodes.timestep, seconds=seconds, fps=fps)
            count = write_video(target, _remembered(images, last), fps=fps)
        painter = "MuJoCo" if isinstance(frames, MujocoFrames) else "Matplotlib"
        return Recording(target, count, painter, reason, last[0])


def _remembered(images: Iterable[NDArray[np.uint8]], last: list[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The images; the newest is also in the list."""
    for image in images:
        last[:] = [image]
        yield image


def _own_images(
    env_id: str, settings: TrainSettings, agent: PGP, *, n_frames: int, seed: int, fps: int
) -> Iterator[NDArray[np.uint8]]:
    """What the environment draws, each step for as long as its own frame rate says."""
    kwargs = {**settings.environment_kwargs(), "render_mode": "rgb_array"}
    alone = replace(settings, num_envs=1, env_kwargs=json.dumps(kwargs))
    with closing(make_environment(env_id, alone)) as env:
        bare = below_tracker(env, agent)
        rng = np.random.default_rng(seed)
        observations, _ = bare.reset(seed=derived_reset_seed(bare, seed, 0, PICTURE))
        steps_per_second = float(bare.metadata.get("render_fps") or fps)
        image, step = _image(bare), 0
        for frame in range(n_frames):
            wanted = int(frame / fps * steps_per_second + 1e-9)
            while step < wanted:
                raw = agent.policy.sample(as_rows(bare.single_observation_space, observations), rng)
                observations = bare.step(agent.policy.to_env(raw))[0]
                step += 1
                image = _image(bare) if step == wanted else image
            yield image


def _image(env: Any) -> NDArray[np.uint8]:
    images = env.render()
    if not images or np.ndim(images[0]) != 3:
        raise InvalidRun("The environment's render() returned no image.")
    return np.asarray(images[0], dtype=np.uint8)
