"""Short runs."""

import pytest

from constrained_maxent.runs import summary
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import train


@pytest.fixture(autouse=True)
def _without_certificates():
    """A convex program takes a second or two, longer than the training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "QUICK_VARIABLES", 0)
        yield


@pytest.fixture
def short():
    """Settings of a run that takes a tenth of a second."""

    def make(**settings):
        usual = {"iterations": 12, "num_envs": 8}
        often = {"log_every": 2, "evaluate_every": 4, "checkpoint_every": 5}
        return TrainSettings(**usual | often | {"seed": 3} | settings)

    return make


@pytest.fixture
def run(tmp_path, short):
    """Trains in a folder of that name."""

    def make(name="run", env_id="FrozenLake-PGP-v0", **settings):
        return train(env_id, short(**settings), RunFolder(tmp_path / name))

    return make


@pytest.fixture
def write_run(tmp_path):
    """Writes run folders by hand, with what a comparison reads of them."""

    def make(
        name,
        *,
        seed=0,
        env_id="FrozenLake-PGP-v0",
        agent=None,
        objective=1.0,
        cost=-1.0,
        limit=0.0,
        exact=True,
        iterations=10,
        timesteps=1000,
        status="finished",
        episodes=None,
        cell_sizes=None,
        metrics=None,
        summary=True,
        settings=None,
    ):
        """A run folder; ``episodes`` is how many fresh ones its evaluation.json is of, with ``objective`` less 0.5.

        ``metrics`` are columns of metrics.csv by name. The last batch alone has ``objective`` less 10.
        """
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir(parents=True)
        content = {"env_id": env_id, "settings": {"seed": seed, **(settings or {})}}
        folder.write_json(folder.config_path, content if agent is None else {**content, "agent": agent})
        known = {"objective": objective, "constraints": {"cost": cost}, "mass": 1.0} if exact else None
        if summary:
            content = {
                "status": status,
                "iterations": iterations,
                "timesteps": timesteps,
                "exact": known,
                "estimate": {
                    "objective_fresh": objective - 10.0,
                    "constraints_fresh": {"cost": cost},
                    "mass_fresh": 1.0,
                },
                "limits": [{"name": "cost", "limit": limit}],
                "cell_sizes": cell_sizes or {},
            }
            folder.write_json(folder.summary_path, content)
        if episodes is not None:
            rollouts = {
                "objective": {"mean": objective - 0.5, "low": 0.0, "high": 0.0},
                "constraints": {"cost": {"mean": cost, "low": 0.0, "high": 0.0}},
                "mass": {"mean": 1.0 + seed, "low": 0.0, "high": 0.0},
                "states": {"entropy": {"mean": 3.0 + seed}, "coverage": {"share": 0.25}},
                "n_episodes": episodes,
            }
            folder.write_json(folder.evaluation_path, {"iteration": iterations, "rollouts": rollouts, "exact": known})
        if metrics is not None:
            names = list(metrics)
            rows = [",".join("" if x is None else repr(x) for x in row) for row in zip(*metrics.values(), strict=True)]
            folder.metrics_path.write_text("\n".join([",".join(names), *rows, ""]))
        return folder.path

    return make


@pytest.fixture
def learnt():
    """Of a run folder the metrics without how long they took, to the last bit."""

    def metrics(folder):
        return {name: column.tobytes() for name, column in folder.read_metrics().items() if name != "seconds"}

    return metrics
