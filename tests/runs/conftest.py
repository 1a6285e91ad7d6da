"""Short runs."""

import pytest

from constrained_maxent.runs import training
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import train


@pytest.fixture(autouse=True)
def _without_certificates():
    """A convex program takes a second or two, longer than the training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "QUICK_VARIABLES", 0)
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
