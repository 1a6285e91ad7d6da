"""Films the policy of a run: through MuJoCo, by Matplotlib, or as its environment draws itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.figures import below_tracker, roll_out, scene_of
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import load_agent, load_config
from constrained_maxent.spaces import as_rows


@dataclass(frozen=True)
class Recording:
    """A film that was written.

    Attributes:
        path: of the file.
        n_frames: images in it.
        painter: ``"MuJoCo"``, ``"Matplotlib"`` or ``"environment"``.
        reason: why MuJoCo did not draw, where it might have been expected.
    """

    path: Path
    n_frames: int
    painter: str
    reason: str | None


def record_video(
    folder: RunFolder, *, seconds: float = 10.0, seed: int = 0, path: Path | None = None, fps: int = 25
) -> Recording:
    """Film fresh episodes of a run's policy, at true speed.

    Args:
        folder: of the run.
        seconds: length of the film; after an episode's end comes the next one.
        seed: of environment and actions.
        path: the file, ``*.mp4``; by default ``video.mp4`` in the folder.
        fps: images for each second.

    Raises:
        InvalidSetting: seconds, seed, fps or the path's ending make no sense.
        InvalidRun: no run, or its environment cannot draw itself as images.
        DamagedCheckpoint, CheckpointMismatch: the checkpoint cannot be used.
        gymnasium.error.DependencyNotInstalled: there is no ffmpeg for imageio.
    """
    # Imported late: Matplotlib would slow down every command that draws nothing.
    from constrained_maxent.reporting.video import MujocoFrames, film, number_of_frames, open_frames, write_video

    if isinstance(seed, bool) or seed < 0:
        raise InvalidSetting(f"seed={seed!r} must be at least 0.")
    n_frames = number_of_frames(seconds, fps)
    target = folder.video_path if path is None else path
    env_id, settings = load_config(folder)
    with closing(make_environment(env_id, settings)) as env:
        agent = load_agent(folder, env)
        scene, can_draw = scene_of(env), "rgb_array" in env.metadata.get("render_modes", ())
        if scene is None:
            if not can_draw:
                raise InvalidRun(f"{env_id} cannot be filmed: it has no render mode 'rgb_array'.")
            images = _own_images(env_id, settings, agent, n_frames=n_frames, seed=seed, fps=fps)
            return Recording(target, write_video(target, images, fps=fps), "environment", None)
        episodes = roll_out(env_id, settings, agent, seconds=seconds, seed=seed)
        courses = [states[np.isfinite(states).all(axis=1)] for states in episodes.states]
        frames, reason = open_frames(scene, scene.tracer_norm(episodes.states))
        with closing(frames):
            images = film(frames, courses, timestep=episodes.timestep, seconds=seconds, fps=fps)
            count = write_video(target, images, fps=fps)
        return Recording(target, count, "MuJoCo" if isinstance(frames, MujocoFrames) else "Matplotlib", reason)


def _own_images(
    env_id: str, settings: TrainSettings, agent: PGP, *, n_frames: int, seed: int, fps: int
) -> Iterator[NDArray[np.uint8]]:
    """What the environment draws, each step for as long as its own frame rate says."""
    kwargs = {**settings.environment_kwargs(), "render_mode": "rgb_array"}
    alone = replace(settings, num_envs=1, env_kwargs=json.dumps(kwargs))
    with closing(make_environment(env_id, alone)) as env:
        bare = below_tracker(env, agent)
        rng = np.random.default_rng(seed)
        observations, _ = bare.reset(seed=seed)
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
