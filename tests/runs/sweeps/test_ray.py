"""The same runs as tasks of a Ray cluster, which the sweep starts and stops."""

import warnings

import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs import RunFolder, SweepPlan, sweep
from constrained_maxent.runs.sweeps.performing import perform
from constrained_maxent.runs.sweeps.sweeping import _begin

ray = pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def _of_ray():
    """It warns of what it leaves open, and of settings of the machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.shutdown()  # what other tests have left connected
        yield


def test_the_numbers_are_those_of_this_process_whoever_is_killed(tmp_path, described, monkeypatch, modules, learnt):
    monkeypatch.setenv("PYTHONPATH", str(modules), prepend=":")  # Ray's processes begin with nothing else
    faults = [{"fault": fault} for fault in ("killed", "nan", "no")]
    plan = SweepPlan.of(described(seeds=1, grid={"env_kwargs": faults}))
    result = sweep(plan, tmp_path / "ray", executor="ray", workers=2)
    killed, nan, whole = result.statuses
    assert [status.state for status in result.statuses] == ["failed", "failed", "finished"]
    assert killed.reason.startswith("WorkerCrashedError: ")
    assert nan.reason.startswith("NonFiniteValue: ")
    assert not ray.is_initialized()
    token, _ = _begin(SweepPlan((whole.run,)), tmp_path / "here")
    assert perform(whole.run, tmp_path / "here", token).state == "finished"
    there, here = (RunFolder(tmp_path / place / whole.run.name) for place in ("ray", "here"))
    assert learnt(there) == learnt(here)


@pytest.mark.parametrize("address", ["auto", "nonsense"])
def test_a_cluster_that_is_not_there(tmp_path, described, address):
    with pytest.raises(InvalidSetting, match="no Ray cluster that can be reached"):
        sweep(SweepPlan.of(described()), tmp_path, executor="ray", address=address)


def test_another_cluster_than_that_of_the_process(tmp_path, described):
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    with pytest.raises(InvalidSetting, match="connected to a Ray cluster already"):
        sweep(SweepPlan.of(described()), tmp_path, executor="ray", address="auto")
    assert ray.is_initialized()
    ray.shutdown()
