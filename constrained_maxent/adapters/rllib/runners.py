"""RLlib's runners of environments, whose trackers all follow one leader in an actor of Ray."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import ray
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from constrained_maxent import errors
from constrained_maxent.adapters.leader import Leader
from constrained_maxent.adapters.rllib.stacks import make_stack
from constrained_maxent.errors import ConstrainedMaxentError
from constrained_maxent.records import Fragment
from constrained_maxent.tracker import Tracker, find_tracker


class LeaderActor:
    """A :class:`~constrained_maxent.adapters.leader.Leader` in a process of its own.

    What it tells is put into Ray's object store once a version, however many ask. What fails or is warned of, here or
    with a follower, is kept for the algorithm, where a user sees it: RLlib starts a runner anew, whatever ails it.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._leader = Leader(tracker)
        self._error: BaseException | None = None
        self._warnings: dict[tuple[str, str], None] = {}  # by category and message, in order
        self._told: tuple[int, Any] | None = None

    def hand_in(self, fragment: Fragment) -> None:
        """See ``Leader``."""
        try:
            with heard(self.warn):
                self._leader.hand_in(fragment)
        except Exception as error:
            self.fail(error)
            raise

    def newest(self, version: int) -> tuple[int, Any] | None:
        """Version and a reference to what ``Leader.newest`` says, in a list; ``None`` as there."""
        if self._told is None or self._told[0] != self._leader.version:
            news = self._leader.newest(-1)
            assert news is not None
            self._told = news[0], [ray.put(news[1])]
        return None if version == self._told[0] else self._told

    def fail(self, error: BaseException) -> None:
        """Somebody cannot go on."""
        self._error = error

    def warn(self, category: str, message: str) -> None:
        """Somebody warns of something, by the name of a class in ``errors``."""
        self._warnings[category, message] = None

    def faults(self) -> tuple[BaseException | None, list[tuple[str, str]]]:
        """What has failed, and all that was warned of."""
        return self._error, list(self._warnings)

    def report(self) -> dict[str, Any]:
        """Progress of the run, and figures of the latest batch by name, if there has been one."""
        tracker, report = self._leader.tracker, self._leader.tracker.last_report
        figures = {"progress": tracker.progress, "lag": self._leader.lag, "reward_scale": tracker.reward_scale}
        if report is None:
            return figures
        names = ("iteration", "episodes", "steps", "objective", "objective_fresh", "penalty")
        figures |= {name: getattr(report, name) for name in names if getattr(report, name) is not None}
        parts = ("constraints", "constraints_fresh", "multipliers")
        return figures | {name: dict(getattr(report, name)) for name in parts if getattr(report, name)}

    def state_dict(self) -> dict[str, Any]:
        """See ``Leader``."""
        return self._leader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Leader``."""
        self._leader.load_state_dict(state)


class RemoteLeader:
    """The leader as a follower sees it. Nobody waits for a fit: what was handed in is asked for later.

    Args:
        name: of the actor.
    """

    def __init__(self, name: str) -> None:
        self._actor = ray.get_actor(name)
        self._handed_in: list[Any] = []

    def hand_in(self, fragment: Fragment) -> None:
        self._handed_in.append(self._actor.hand_in.remote(fragment))

    def newest(self, version: int) -> tuple[int, Mapping[str, Any]] | None:
        handed_in, self._handed_in = self._handed_in, []
        ray.get(handed_in)  # raises what failed there
        told = ray.get(self._actor.newest.remote(version))
        return None if told is None else (told[0], ray.get(told[1][0]))

    def fail(self, error: BaseException) -> None:
        """Tell the algorithm why this runner cannot go on."""
        ray.get(self._actor.fail.remote(error))

    def warn(self, category: str, message: str) -> None:
        """Tell the algorithm what this runner is warned of."""
        ray.get(self._actor.warn.remote(category, message))


@contextmanager
def heard(tell: Any) -> Iterator[None]:
    """Warnings of this package are told by category and message; others come as they would."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for warning in caught:
            if getattr(errors, warning.category.__name__, None) is warning.category:
                tell(warning.category.__name__, str(warning.message))
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


class EnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]  # of a library without types
    """Steps one vector of copies with one tracker, which follows the leader; runners for evaluation learn nothing."""

    env: Any
    _frozen: ExitStack

    def make_env(self) -> None:
        """Make the stack and follow the leader, at the start and where the environment failed."""
        if self.env is not None:
            self._frozen.close()
            self.env.close()
        self._frozen = ExitStack()
        self.env = DictInfoToList(make_stack(self.config, self.worker_index or 0))
        self.num_envs = self.env.num_envs
        self._tracker = find_tracker(self.env)
        self._leader = RemoteLeader(self.config.leader)
        runners = max(1, self.config.num_env_runners)
        self._tracker.follow(self._leader, number=self.worker_index or 0, followers=runners)
        if self.config.in_evaluation:
            self._frozen.enter_context(self._tracker.frozen())
        self._needs_initial_reset = True
        make_callback(
            "on_environment_created",
            callbacks_objects=self._callbacks,
            callbacks_functions=self.config.callbacks_on_environment_created,
            kwargs={
                "env_runner": self,
                "metrics_logger": self.metrics,
                "env": self.env.unwrapped,
                "env_context": self.config.env_config,
            },
        )

    def sample(self, **arguments: Any) -> Any:
        """As RLlib's, with rewards of one λ̂, the newest, for all that is sampled."""
        try:
            with heard(self._leader.warn):
                self._tracker.catch_up()
                return super().sample(**arguments)
        except Exception as error:
            # What this package refuses would be refused for ever.
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, ConstrainedMaxentError):
                cause = cause.__cause__
            if cause is not None:
                self._leader.fail(cause)
            raise
