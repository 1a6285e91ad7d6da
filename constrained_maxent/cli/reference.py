"""``cmaxent reference``: what continuous imitation imitates."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from constrained_maxent.adapters.sb3 import require_stable_baselines
from constrained_maxent.adapters.sb3.expert import TRAINING, ExpertSettings, check_rollouts, reference_of, train_expert
from constrained_maxent.atomic import check_writable
from constrained_maxent.cli.console import console, print_table
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation.state_measures import measures_of
from constrained_maxent.references import GaussianNetwork, Reference
from constrained_maxent.runs.environments import find_spec, make_scalar
from constrained_maxent.runs.run_folder import file_name
from constrained_maxent.runs.settings import json_object
from constrained_maxent.types import check_count

_EXAMPLE = '{"time_limit": 4.0}'


@dataclass(frozen=True, kw_only=True)
class TrainReference:
    """Train an expert by soft actor-critic on the environment's own reward, and store its occupancy."""

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID")]
    """Any registered id with actions in a Box, for example PointMass-v0; a bare environment, not a -PGP- one."""
    timesteps: int = 100_000
    """Steps of the training environments, all together; the first 4000 only explore."""
    seed: int = 0
    """Seed of everything random."""
    episodes: int = 30
    """Episodes whose states the mixture is fitted to."""
    updates_per_step: float = 0.5
    """Gradient steps for each step of a training environment."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Hidden layers of policy and critics."""
    learning_rate: float = 1e-3
    """Learning rate of policy, critics and entropy coefficient."""
    discount: float = 0.98
    """γ of the expert's returns, for each step of a training environment."""
    state: str = "state"
    """Key of info that carries the state that the density is over; "observation" for the observation itself."""
    periodic: tuple[int, ...] | None = None
    """Coordinates of that state that are angles in radians. Default: those of the package's own environments."""
    env_kwargs: str = "{}"
    """Arguments of the environment, as a JSON object."""
    training_kwargs: str | None = None
    """Further arguments in training only, as a JSON object. PointMass-v0 has some of its own."""
    out: Path | None = None
    """File of the reference. Default: references/<id>-seed<seed>.npz."""
    quiet: bool = False
    """No progress bar."""

    def run(self, given: frozenset[str]) -> int:
        require_stable_baselines()
        check_count("episodes", self.episodes)
        kwargs = json_object("env-kwargs", self.env_kwargs, example=_EXAMPLE)
        extra = TRAINING.get(find_spec(self.env_id).id, {})
        if self.training_kwargs is not None:
            extra = json_object("training-kwargs", self.training_kwargs, example=_EXAMPLE)
        settings = ExpertSettings(
            timesteps=self.timesteps,
            updates_per_step=self.updates_per_step,
            hidden_sizes=self.hidden_sizes,
            learning_rate=self.learning_rate,
            discount=self.discount,
            seed=self.seed,
        )
        target = self.out or Path("references") / f"{file_name(self.env_id)}-seed{self.seed}.npz"
        state = None if self.state == "observation" else self.state
        with closing(make_scalar(self.env_id, kwargs)) as env:
            periodic = self._angles(env)
            check_rollouts(env, state=state, periodic=periodic, n_episodes=self.episodes)
            try:
                check_writable(target)
            except OSError as error:
                raise InvalidSetting(f"{target} cannot be written ({error}): give --out another file.") from error
            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console, transient=True, disable=self.quiet) as bar:
                task = bar.add_task("training", total=self.timesteps)

                def show(done: int, reward: float) -> None:
                    bar.update(task, completed=done, description=f"mean reward {reward:.3f}")
                    if not console.is_terminal and not self.quiet:
                        console.print(f"{done} steps, mean reward {reward:.4f}", highlight=False)

                network, seconds = train_expert(
                    lambda: make_scalar(self.env_id, {**kwargs, **extra}), settings, progress=show
                )
            reference = reference_of(
                network,
                env,
                state=state,
                periodic=periodic,
                n_episodes=self.episodes,
                seed=self.seed,
                about={
                    "training_seconds": round(seconds, 1),
                    "training": asdict(settings) | {"hidden_sizes": list(self.hidden_sizes)},
                    "command": self._command(),
                    "training_kwargs": extra,
                },
            )
        reference.save(target)
        _print(reference, target)
        return 0

    def _angles(self, env: gym.Env[Any, Any]) -> tuple[int, ...]:
        """Those given, or what is known of the state of this environment."""
        if self.periodic is not None:
            return self.periodic
        return tuple(measures_of(env).periodic or ()) if self.state == "state" else ()

    def _command(self) -> str:
        """The command line that makes this reference again."""
        options: list[Any] = [self.env_id]
        for name, value in vars(self).items():
            unsaid = value is None or (name, value) == ("env_kwargs", "{}")
            if name not in ("env_id", "out", "quiet") and not unsaid:
                options += [f"--{name.replace('_', '-')}", *(value if isinstance(value, tuple) else [value])]
        return f"cmaxent reference train {shlex.join(map(str, options))}"


@dataclass(frozen=True, kw_only=True)
class ShowReference:
    """Say what is in a file of a reference, and where it comes from."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """File of a reference."""

    def run(self, given: frozenset[str]) -> int:
        _print(Reference.load(self.file), self.file)
        return 0


@dataclass(frozen=True, kw_only=True)
class ReferenceCommand:
    """Make references for imitation, and look at them."""

    command: (
        Annotated[TrainReference, tyro.conf.subcommand(name="train")]
        | Annotated[ShowReference, tyro.conf.subcommand(name="show")]
    )
    """What to do."""

    def run(self, given: frozenset[str]) -> int:
        return self.command.run(given)


def _print(reference: Reference, path: Path) -> None:
    states, policy = reference.states, reference.policy
    table = Table(title=str(path), show_header=False)
    table.add_row("components", str(len(states.gaussians.weights)))
    angles = f", angles {', '.join(map(str, states.periodic))}" if states.periodic else ""
    table.add_row("state", f"{states.n_states} coordinates{angles}, mass {states.mass:g}")
    sizes: list[tuple[int, ...]] = []
    if isinstance(policy, GaussianNetwork):
        sizes = [layer.weights.shape for part in (policy.trunk, policy.mean) for layer in part]
    table.add_row("policy", " → ".join([*(str(n) for n, _ in sizes), str(sizes[-1][1])]) if sizes else "none")
    for name, value in reference.about.items():
        shown = f"{value:.2f}" if isinstance(value, float) else json.dumps(value) if isinstance(value, dict) else value
        if name != "command":
            table.add_row(name.replace("_", " "), str(shown))
    print_table(table)
    random = reference.about.get("mean_return_of_random_actions")
    if random is not None and reference.about["mean_return"] <= random:
        console.print("This expert earns no more than random actions do: train it longer.", style="yellow")
    if command := reference.about.get("command"):
        console.print(str(command), highlight=False, soft_wrap=True)
