"""Agents of Stable-Baselines3 in run folders: what ``agent = "sb3.PPO"`` of a sweep trains, and with which settings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.adapters.sb3 import INSTALL, require_stable_baselines
from constrained_maxent.agents import IterationReport
from constrained_maxent.errors import InvalidSetting, UnsupportedPolicy
from constrained_maxent.evaluation import exact_problem
from constrained_maxent.runs.environments import completed, find_spec, make_environment, with_chosen_state
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import run_held
from constrained_maxent.runs.warned import kept_warnings
from constrained_maxent.tasks import PRESETS
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import FloatArray

AGENTS = {"sb3.PPO": "stable_baselines3", "sb3.A2C": "stable_baselines3", "sb3.TRPO": "sb3_contrib"}
"""Names, and the packages that have them: on-policy algorithms, whose updates each have the rewards of one rollout."""

_OURS = ("self", "policy", "env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model")
"""Arguments of an algorithm that the run decides."""


def algorithm(agent: str) -> Any:
    """The class of a name.

    Raises:
        InvalidSetting: there is none of this name.
        gymnasium.error.DependencyNotInstalled: without its package.
    """
    if agent not in AGENTS:
        raise InvalidSetting(f"agent = {agent!r} is not known: there are pgp, {', '.join(AGENTS)}")
    require_stable_baselines()
    try:
        return getattr(import_module(AGENTS[agent]), agent.removeprefix("sb3."))
    except ImportError as error:
        raise DependencyNotInstalled(f"{agent} needs {AGENTS[agent]} ({error}): {INSTALL} sb3-contrib.") from error


def arguments_of(agent: str) -> tuple[str, ...]:
    """Names of the settings that an agent has of its own."""
    return tuple(name for name in inspect.signature(algorithm(agent)).parameters if name not in _OURS)


def checked(env_id: str, settings: TrainSettings) -> TrainSettings:
    """The settings of a run, completed: rewards of the batch before, and the preset for agents that learn from them.

    Raises:
        InvalidSetting: another pairing, or settings that only PGP has.
    """
    if settings.pairing not in (None, "previous"):
        raise InvalidSetting(
            f'pairing = {settings.pairing!r}: agents of Stable-Baselines3 learn from live rewards, "previous"'
        )
    is_stack = find_spec(env_id).id in PRESETS
    preset = "ppo" if is_stack and settings.preset is None else settings.preset
    return completed(env_id, replace(settings, preset=preset, pairing="previous"))


def train_third_party_held(
    config: Mapping[str, Any], settings: TrainSettings, arguments: Mapping[str, Any], folder: RunFolder, lock: Lock
) -> bool:
    """Train from the beginning in a folder that is this process's already, replacing what was unfinished in it.

    Returns:
        Whether it was interrupted.
    """
    with kept_warnings() as warned:
        folder.create(overwrite=True)
        env = make_environment(config["env_id"], _in_the_same_step(config["env_id"], settings))
        try:
            learner = StableBaselinesLearner(config["agent"], env, arguments, seed=settings.seed)
            chosen = with_chosen_state(settings, env)
        except BaseException:
            env.close()
            raise
        written = {**config, "settings": {**config["settings"], "state": chosen.state}}
        return run_held(written, chosen, folder, lock, learner, folder.clear, warned).interrupted


def _in_the_same_step(env_id: str, settings: TrainSettings) -> TrainSettings:
    """With copies that are reset in the step that ends an episode, as Stable-Baselines3 wants them."""
    kwargs = settings.environment_kwargs()
    if find_spec(env_id).vector_entry_point is not None and kwargs.get("vectorization_mode") is None:
        kwargs.setdefault("autoreset_mode", "SameStep")
    else:
        kwargs["vector_kwargs"] = {"autoreset_mode": "SameStep", **kwargs.get("vector_kwargs", {})}
    return replace(settings, env_kwargs=json.dumps(kwargs))


class StableBaselinesLearner:
    """A model of Stable-Baselines3 as a run folder trains it: one iteration is one rollout and the update after it.

    Args:
        agent: one of ``AGENTS``.
        env: the vector environment.
        arguments: of the algorithm; they go before what the environment suggests.
        seed: of everything random.

    Attributes:
        model: the model.
        iteration, timesteps: updates done, and steps taken for them.
    """

    def __init__(self, agent: str, env: Any, arguments: Mapping[str, Any], *, seed: int) -> None:
        from stable_baselines3.common.vec_env import VecNormalize

        from constrained_maxent.adapters.sb3 import VecEnv

        kind = algorithm(agent)
        venv = VecEnv(env)
        self.env, self.iteration, self.timesteps = env, 0, 0
        self._tracker = venv.tracker
        sees_normalized = self._tracker.suggestions.get("normalize_observations", False)
        known = inspect.signature(kind).parameters
        given = {name: value for name, value in venv.suggested().items() if name in known} | dict(arguments)
        self.model = kind(
            "MultiInputPolicy" if hasattr(venv.observation_space, "spaces") else "MlpPolicy",
            VecNormalize(venv, norm_reward=False) if sees_normalized else venv,
            seed=seed,
            device="cpu",
            verbose=0,
            **given,
        )
        self._problem, _ = exact_problem(env)
        if self._problem is not None:
            try:
                self.policy_table()
            except UnsupportedPolicy:
                self._problem = None

    @property
    def is_tabular(self) -> bool:
        return self._problem is not None

    def policy_table(self) -> FloatArray:
        from constrained_maxent.adapters.sb3 import policy_table

        assert self._problem is not None, "is_tabular was asked"
        return policy_table(self.model, self._problem.mdp)

    def learn(
        self,
        *,
        iterations: int,
        callback: Callable[[StableBaselinesLearner, IterationReport], bool],
        progress_bar: bool = False,
    ) -> None:
        rollout = int(self.model.n_steps) * self.env.num_envs
        self._tracker.announce(timesteps=iterations * rollout)
        self.model.learn(iterations * rollout, callback=_callback(self, callback))
        if self.iteration == 0:
            raise InvalidSetting(f"No batch ended in {iterations} rollouts of {rollout} steps: give more iterations.")

    def report(self) -> IterationReport:
        """What the last batch ended with; it was collected before the update that is counted now."""
        batch = self._tracker.last_report
        assert batch is not None, "there was a batch"
        return IterationReport.of(batch, iteration=self.iteration, timesteps=self.timesteps)

    def save(self, path: Path) -> None:
        from constrained_maxent.adapters.sb3 import save

        save(self.model, RunFolder(path.parent).model_path)

    def state_dict(self) -> dict[str, Any]:
        parameters = self.model.get_parameters()
        return {"iteration": self.iteration, "timesteps": self.timesteps, "parameters": deepcopy(parameters)}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        self.model.set_parameters(state["parameters"])
        self.iteration, self.timesteps = state["iteration"], state["timesteps"]


def _callback(learner: StableBaselinesLearner, tell: Callable[[StableBaselinesLearner, IterationReport], bool]) -> Any:
    """A callback of Stable-Baselines3 that tells of every update once it is made."""
    from stable_baselines3.common.callbacks import BaseCallback

    from constrained_maxent.adapters.sb3.acting import log_prob_of_training

    class AfterUpdates(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self._goes_on, self._rollouts = True, 0
            self._acting = ExitStack()

        def _on_training_start(self) -> None:
            if (log_prob := log_prob_of_training(self.model)) is not None:
                venv: Any = self.training_env.unwrapped
                self._acting.enter_context(venv.acting(self.model, log_prob))

        def _on_rollout_start(self) -> None:
            self._tell()  # of the update before

        def _on_step(self) -> bool:
            return self._goes_on

        def _on_rollout_end(self) -> None:
            self._rollouts += 1

        def _on_training_end(self) -> None:
            self._tell()
            self._acting.close()

        def _tell(self) -> None:
            if self._rollouts == learner.iteration or find_tracker(learner.env).last_report is None:
                return
            learner.iteration, learner.timesteps = self._rollouts, int(self.num_timesteps)
            self._goes_on = bool(tell(learner, learner.report())) and self._goes_on

    return AfterUpdates()
