"""Policy Gradient Penalty: Algorithms 1 and 2 of the paper, on a table or on networks."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from constrained_maxent.agents import checkpoints, deployment
from constrained_maxent.agents.critic import Critic
from constrained_maxent.agents.policies import CategoricalMLP, Network, Policy, TabularSoftmax, make_policy
from constrained_maxent.agents.pytorch import device_named, threads_for, usual_numbers
from constrained_maxent.agents.reports import IterationReport, Progress
from constrained_maxent.agents.returns import advantages_and_returns, standardized
from constrained_maxent.agents.rollouts import Collector, Rollout
from constrained_maxent.agents.settings import (
    LEAST_RATE,
    STEADY_BATCHES,
    Hyperparameters,
    PGPSettings,
    complete,
    is_table,
)
from constrained_maxent.agents.updates import NaturalGradient, PolicyAverage, update_policy
from constrained_maxent.errors import (
    CheckpointMismatch,
    InvalidSetting,
    UnplannedRun,
    UnseenObservation,
    UnsupportedSpace,
)
from constrained_maxent.schedules import Geometric
from constrained_maxent.seeds import derived_seed
from constrained_maxent.spaces import Environment, as_batch, from_row, from_rows, leaves, single_spaces
from constrained_maxent.types import FloatArray, check_count, check_seed, is_number

Callback = Callable[["PGP", IterationReport], bool | None]
"""Called after every iteration with the agent and its report; returning False ends the training."""


class PGP:
    r"""Projected gradient ascent on pseudo-rewards (paper, Algorithm 1).

    .. math:: \theta \leftarrow \mathrm{proj}_\Theta\big[\theta + \eta\, \hat g\big], \qquad
       \hat g = \frac{1}{|B_2|}\sum_{b \in B_2} \sum_t \Big(\sum_{k \ge t} w_k\, r(s_k,a_k)\Big)
       \nabla\log\pi_\theta(a_t|s_t).

    The pseudo-rewards *r*, the weights *w*, the end of a batch and its trajectories :math:`B_2` are read from ``info``;
    objective, constraints and penalties are those of the wrappers. With a ``Lagrangian`` penalty it is primal-dual,
    with ``proximal_weight`` Algorithm 2. Where every batch is of whole episodes, each iteration starts with a seeded
    reset, so a run that is saved and continued equals an uninterrupted one bit for bit.

    Args:
        env: a wrapped environment, scalar or vector, with finite or ``Box`` actions.
        settings: hyperparameters; single ones may be given as keywords instead, ``PGP(env, learning_rate=0.1)``.
            What is left out the environment may suggest, as the -PGP- ids do.
        seed: of everything random: actions, networks, and the environment's resets.
        network: makes a network of your own, in place of ``hidden_sizes``: called with the number of inputs (normalized
            numbers, one-hot cells, encoded pictures), it returns a ``torch.nn.Module`` from ``(n, n_inputs)`` to
            ``(n, n_features)``, on which this agent puts a last layer. It is called once for each network: those of
            the policy (mean and deviation of ``Box`` actions have one each), and that of the critic.

    Raises:
        InvalidSetting: a hyperparameter out of range, an unknown device, or an environment that PGP cannot use.
        UnsupportedSpace: no policy for these spaces.

    Attributes:
        settings: what was given.
        hyperparameters: what it runs with.
        learner: the policy that collects batches and climbs.

    >>> import gymnasium as gym
    >>> import constrained_maxent
    >>> agent = PGP(gym.make("FrozenLake-PGP-v0"), seed=0).learn(iterations=2)
    >>> agent.iteration, agent.policy_table().shape
    (2, (36, 4))
    """

    def __init__(
        self,
        env: Environment,
        settings: PGPSettings | None = None,
        *,
        seed: int = 0,
        network: Network | None = None,
        **hyperparameters: Any,
    ) -> None:
        if settings is not None and hyperparameters:
            raise InvalidSetting("Give either settings= or single hyperparameters, not both.")
        if unknown := hyperparameters.keys() - PGPSettings.__dataclass_fields__:
            known = ", ".join(PGPSettings.__dataclass_fields__)
            raise InvalidSetting(f"PGP has no hyperparameter {', '.join(sorted(unknown))}. It has: {known}.")
        self.seed = check_seed("seed", seed)
        self.env = env
        self.network = network
        self.settings = PGPSettings(**hyperparameters) if settings is None else settings
        self.iteration = 0
        self.timesteps = 0
        self._collector = Collector(env)
        self._tracker = self._collector.tracker
        self._rng = np.random.default_rng(self.seed)
        # Acting in between must not change what is learnt.
        self._predict_rng = np.random.default_rng((self.seed, 1))
        self._updates = 0  # batches that the policy took
        self._progress = 0.0  # of the run, where the batch under way began
        self._center: list[torch.Tensor] = []  # of the proximal term, one for each parameter; empty without one
        self._goes_on = False  # whether the collector is inside episodes that the next batch continues
        self._build()

    def _build(self) -> None:
        settings, collector = self.settings, self._collector
        spaces = collector.observation_space, collector.action_space
        _warn_of_unseen(single_spaces(self.env)[0], spaces[0])
        table = is_table(*spaces, kind=settings.policy)
        if self.network is not None and (table or settings.hidden_sizes is not None):
            other = "the policy is a table: give policy='mlp' with it" if table else "hidden_sizes= is given too"
            raise InvalidSetting(f"network= is in place of hidden_sizes=, and {other}.")
        # What is suggested suits the usual kind of policy, not the other one.
        is_usual = table == is_table(*spaces, kind="auto")
        suggestions = self._tracker.suggestions if is_usual else {}
        usual = {} if table else {"return_discount": self._tracker.return_discount}
        self.hyperparameters = complete(settings, usual | dict(suggestions), is_table=table)
        chosen = self.hyperparameters
        try:
            device = device_named(settings.device)
        except ValueError as error:
            raise InvalidSetting(f"device={settings.device!r} cannot be used here ({error}): take 'cpu'.") from error
        with usual_numbers(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            policy = make_policy(
                *spaces,
                kind=settings.policy,
                hidden_sizes=self.network or chosen.hidden_sizes,
                normalize=chosen.normalize_observations,
            )
            self.critic = Critic(spaces[0], chosen, self.network).to(device) if chosen.baseline == "critic" else None
            self.learner = policy.to(device)
            self._average = PolicyAverage(self.learner, chosen.averaging) if chosen.averaging > 0.0 else None
            self.optimizer = self._make_optimizer()

    @property
    def policy(self) -> Policy:
        """What the agent has learnt: the learner, or with ``averaging`` the mean of its iterates.

        To start from other parameters, load them into ``learner``: the first update makes the average anew.
        """
        return self.learner if self._average is None else self._average.policy

    def _make_optimizer(self) -> torch.optim.Optimizer:
        kind, rate = self.hyperparameters.optimizer, self.hyperparameters.learning_rate
        if kind == "natural":
            assert isinstance(self.learner, TabularSoftmax), "settings were checked"
            return NaturalGradient(self.learner, self._tracker, lr=rate, damping=self.hyperparameters.damping)
        if kind == "adam":
            # Fused: each parameter in one pass, instead of a dozen.
            return torch.optim.Adam(self.learner.parameters(), lr=rate, fused=True)
        return torch.optim.SGD(self.learner.parameters(), lr=rate)

    # Learning.

    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        iterations: int | None = None,
        planned: int | None = None,
        callback: Callback | None = None,
        progress_bar: bool = False,
    ) -> Self:
        """Train until at least so many further steps, or exactly so many further iterations, are done.

        Schedules (of penalty, memory and step size) run over the progress of the whole run. The first call announces
        its end, unless ``gym.make(..., iterations=)`` or another agent has; a later call leaves it where it is. So a
        run in parts, ``learn(iterations=10, planned=500)`` in a loop for example, is what one run would be.

        Args:
            total_timesteps: environment steps to add, all sub-environments together; the last batch is finished.
            iterations: batches to add, a whole number.
            planned: length of the whole run from its beginning, in the unit of the amount, where it is not what is
                added now; it replaces what was announced before.
            callback: called after every iteration; returning False ends the training.
            progress_bar: show time left, entropy and constraint values.

        Returns:
            The agent itself.

        Raises:
            InvalidSetting: not exactly one of the two, below 0, or not a whole number of iterations.
            NonFiniteValue: the policy diverged; the last step is not taken.
        """
        if (total_timesteps is None) == (iterations is None):
            raise InvalidSetting("Give one of total_timesteps= and iterations=.")
        if iterations is None:
            name, amount, begun = "total_timesteps", total_timesteps, self.timesteps
        else:
            name, amount, begun = "iterations", iterations, self.iteration
        if amount is None or not (is_number(amount) and 0 <= amount < math.inf):
            raise InvalidSetting(f"{name}={amount!r} must be a number of at least 0.")
        if iterations is not None and iterations % 1:
            raise InvalidSetting(f"iterations={iterations!r} must be a whole number: batches are taken as a whole.")
        if planned is not None or amount > 0:
            # From where the tracker stands: others may have acted on the environment before this agent.
            stands = self._tracker.timesteps if iterations is None else self._tracker.iteration
            end = stands + math.ceil(amount) if planned is None else check_count("planned", planned)
            if iterations is None:
                self._tracker.announce(timesteps=end, replace_plan=planned is not None)
            else:
                self._tracker.announce(iterations=end, replace_plan=planned is not None)
        final, first = self.hyperparameters.final_learning_rate, self.hyperparameters.learning_rate
        if amount > 0 and self._tracker.progress >= 1.0 and final not in (None, first):
            warnings.warn(
                f"The run goes on past its planned end: the step size stays at {final:.3g}, where it ended. Say how "
                "long it will be in all, learn(..., planned=) or cmaxent train --resume --extend, or give "
                "final_learning_rate=learning_rate for one that never changes.",
                UnplannedRun,
                stacklevel=2,
            )
        done = 0
        self._goes_on = False
        objective = self._tracker.problem.objective
        label = "objective" if objective is None else objective.label.split(" (")[0]
        modules = [module for module in (self.learner, self.critic) if module is not None]
        n_parameters = sum(parameter.numel() for module in modules for parameter in module.parameters())
        with threads_for(n_parameters), Progress(math.ceil(amount), label=label, enabled=progress_bar) as progress:
            while done < amount:
                report = self._iterate()
                done = (self.timesteps if iterations is None else self.iteration) - begun
                progress.update(done, objective=report.objective, constraints=report.constraints_fresh)
                if callback is not None:
                    answer = callback(self, report)
                    if answer is not None and not answer:  # no answer is no reason to stop
                        break
        return self

    def _iterate(self) -> IterationReport:
        self._progress = self._tracker.progress
        if not (self._goes_on and self._collector.can_go_on):
            self._collector.restart(seed=self._reset_seed())
        natural = self.optimizer if isinstance(self.optimizer, NaturalGradient) else None
        if natural is not None:
            natural.before_batch()
        rollout = self._collector.collect(self.learner, self._rng)
        if natural is not None and len(rollout.rows):
            natural.after_batch(rollout)
        # Whole episodes: the next batch starts afresh, with the new policy from its first step on.
        self._goes_on = not rollout.report.whole_episodes
        self.timesteps += rollout.n_steps
        self.iteration += 1
        with usual_numbers():
            gradient_norm, critic_loss = self._update(rollout) if len(rollout.rows) else (0.0, None)
        return IterationReport.of(
            rollout.report,
            iteration=self.iteration,
            timesteps=self.timesteps,
            gradient_norm=gradient_norm,
            critic_loss=critic_loss,
        )

    def _update(self, rollout: Rollout) -> tuple[float, float | None]:
        """Update the policy, then the critic, then how they see observations."""
        chosen = self.hyperparameters
        advantage_t, return_t = advantages_and_returns(rollout, self.critic, chosen)
        if chosen.normalize_advantages:
            advantage_t = standardized(advantage_t, rollout.weights)
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        if chosen.proximal_weight > 0.0 and self._updates % chosen.inner_iterations == 0:
            self._center = [parameter.detach().clone() for parameter in self.learner.parameters()]
        norm = update_policy(
            self.learner,
            self.optimizer,
            settings=chosen,
            rows=rollout.rows,
            raw=rollout.actions,
            factor_t=rollout.weights * advantage_t / rollout.n_episodes,
            rng=self._rng,
            center=self._center,
        )
        self._updates += 1
        critic_loss = None
        if self.critic is not None:
            # Before the fit: the next batch asks for values in this normalization.
            self.critic.observe(rollout.rows)
            critic_loss = self.critic.fit(rollout.rows, return_t, self._rng)
        self.learner.observe(rollout.rows)
        if self._average is not None:
            self._average.update(self.learner)
        return norm, critic_loss

    def _learning_rate(self) -> float:
        """η of this iteration, which stands where the run stood when its batch began."""
        chosen = self.hyperparameters
        if chosen.final_learning_rate is None:
            return chosen.learning_rate * min(1.0, max(LEAST_RATE, STEADY_BATCHES / self.iteration))
        return Geometric(chosen.learning_rate, chosen.final_learning_rate).at(self._progress)

    def _reset_seed(self) -> int:
        return derived_seed(self.seed, self.iteration)

    # Acting.

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[Any, None]:
        """An action for one observation, or actions for a batch of them.

        Args:
            observation: of the environment's observation space, or, for a vector environment, of the batched one.
            deterministic: the most probable action instead of a sample. Samples leave the training as it is.

        Returns:
            Action and ``None``, as Stable-Baselines3's policies do.
        """
        rows, single = as_batch(self._collector.observation_space, observation)
        actions = self._choose(rows, None if deterministic else self._predict_rng)
        space = self._collector.action_space
        return (from_row(space, actions[0]) if single else from_rows(space, actions)), None

    def reseed_predictions(self, seed: int) -> None:
        """Draw the samples of ``predict`` from another seed; nothing else of the agent draws from these numbers."""
        self._predict_rng = np.random.default_rng((check_seed("seed", seed), 1))

    def _choose(self, rows: NDArray[Any], rng: np.random.Generator | None) -> NDArray[Any]:
        policy = self.policy
        return policy.to_env(policy.mode(rows) if rng is None else policy.sample(rows, rng))

    def export(self, path: str | PathLike[str]) -> None:
        """Write the policy as a program that PyTorch alone runs, without this package: for robots and simulators.

        ``torch.export.load(path).module()`` takes a batch of raw observations, as the environment gives them: a tensor
        ``(n, *shape)``, of a ``Dict`` a dictionary of tensors, of the parts that the policy sees, of a ``Tuple`` a
        tuple. Normalization, networks, and the scale of actions are inside. It returns a dictionary of actions in the
        environment's own units:

        - ``action``, the most probable one, what ``predict(observation, deterministic=True)`` returns;
        - ``sample``, drawn from π by PyTorch's generator: the policy that was trained and evaluated;
        - ``probabilities``, of finite actions, ``(n, n_actions)``; one for each component where there are several.

        NaN, infinity, and what lies outside a finite space are an error there too.

        Args:
            path: of the file, ``policy.pt2`` for example.

        Raises:
            UnsupportedSpace: actions of a ``Tuple`` or ``Dict``.
            UnsupportedPolicy: a network of your own that PyTorch cannot write as a program.
            OSError: the file cannot be written; it is named.
        """
        deployment.export(self.policy, self._collector.observation_space, self._collector.action_space, path)

    @property
    def is_tabular(self) -> bool:
        """Whether the policy is a table."""
        return isinstance(self.policy, TabularSoftmax)

    def policy_table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``.

        Raises:
            UnsupportedSpace: observations or actions are not finite.
        """
        if not isinstance(self.policy, (TabularSoftmax, CategoricalMLP)):
            raise UnsupportedSpace("Only a policy over finite actions has a table.")
        return self.policy.table()

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """What the agent has learnt, counts and will draw: numbers, strings and tensors in dicts."""
        return {
            "iteration": self.iteration,
            "timesteps": self.timesteps,
            "updates": self._updates,
            "learner": self.learner.state_dict(),
            "average": None if self._average is None else self._average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "center": dict(enumerate(self._center)),
            "critic": None if self.critic is None else self.critic.state_dict(),
            "critic_optimizer": None if self.critic is None else self.critic.optimizer.state_dict(),
            # The generator's state has integers of 128 bits, which JSON can hold.
            "random": json.dumps(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` of an agent with the same hyperparameters and spaces returned.

        Raises:
            KeyError, ValueError, RuntimeError: parts are missing or have other shapes.
        """
        self.learner.load_state_dict(state["learner"])
        self.learner.changed()
        if self._average is not None:
            self._average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
            self.critic.optimizer.load_state_dict(state["critic_optimizer"])
        self._rng.bit_generator.state = json.loads(state["random"])
        parameters, stored = list(self.learner.parameters()), state["center"]
        if stored and [stored[i].shape for i in range(len(stored))] != [parameter.shape for parameter in parameters]:
            raise ValueError("The center of the proximal term has other shapes than the policy.")
        self._center = [stored[i].to(parameters[i].device, parameters[i].dtype) for i in range(len(stored))]
        self._updates = int(state["updates"])
        self.iteration, self.timesteps = int(state["iteration"]), int(state["timesteps"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a checkpoint, atomically: the agent with its random state, the occupancy estimate, the multipliers."""
        arguments = {
            "settings": json.dumps(asdict(self.settings)),
            # As they turned out: the environment's suggestions may have changed when it is loaded.
            "hyperparameters": json.dumps(asdict(self.hyperparameters)),
            "seed": self.seed,
            "network": _name_of(self.network),
        }
        checkpoints.save(path, self, arguments=arguments)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        env: Environment,
        *,
        device: str | None = None,
        network: Network | None = None,
    ) -> Self:
        """The agent of a checkpoint, ready to continue on an environment built like the one that it was trained on.

        Args:
            path: the checkpoint. It is read without executing code.
            env: the environment; its occupancy estimate and multipliers are put back as well.
            device: where to put policy and critic, if not where they were.
            network: what the agent was given, where it was given one: a file has its name only, and runs no code.

        Raises:
            DamagedCheckpoint: the file is truncated or no checkpoint.
            CheckpointMismatch: it belongs to another environment, or to a version that this one cannot read; or another
                ``network`` made its networks.
        """
        content = checkpoints.read(path, env, cls.__name__)
        with checkpoints.DamageNamed(path):
            arguments = content["arguments"]
            if (there := arguments.get("network")) != (here := _name_of(network)):
                raise CheckpointMismatch(
                    f"The networks of {path} were made by {there or 'hidden_sizes'}, and here is "
                    f"{here or 'no network='}: give PGP.load(..., network=) what PGP was given."
                )
            settings = PGPSettings(**json.loads(arguments["settings"]))
            settings = settings if device is None else replace(settings, device=device)
            given = json.loads(arguments["hyperparameters"])
            chosen = {entry.name: given.pop(entry.name) for entry in fields(Hyperparameters)}
            complete_settings = replace(settings, **chosen, **given)
            usable = complete_settings if network is None else replace(complete_settings, hidden_sizes=None)
            agent = cls(env, usable, seed=arguments["seed"], network=network)
            agent.settings = settings
            # Not even what is left out on purpose may come from the environment now.
            agent.hyperparameters = Hyperparameters(**{name: getattr(complete_settings, name) for name in chosen})
        checkpoints.restore(path, content, agent)
        return agent


def _name_of(network: Network | None) -> str | None:
    """By which a checkpoint knows what made the networks: ``module:name``."""
    if network is None:
        return None
    named = network if hasattr(network, "__qualname__") else type(network)
    return f"{named.__module__}:{named.__qualname__}"


def _warn_of_unseen(space: Any, seen: Any) -> None:
    """Name the parts of a ``Dict`` that the policy does not see."""
    if unseen := [".".join(map(str, path)) for path, _ in leaves(space) if path not in dict(leaves(seen))]:
        warnings.warn(
            f"The policy does not see {', '.join(unseen)} of the observation, which has no numbers. Where that tells "
            "what to do, describe it by numbers in a wrapper of your own.",
            UnseenObservation,
            stacklevel=4,
        )
