"""Data sets by command lines."""

import pytest

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("datasets")


def test_a_run_is_collected_and_its_data_evaluated(cmaxent, train):
    train("FrozenLake-PGP-v0", "--out", "run", "--record", "lake/paid-v0")
    code, out, err = cmaxent("collect", "run", "--steps", 100, "--dataset", "lake/safe-v0", "--quiet")
    assert (code, err) == (0, "")
    assert "entropy" in out
    assert "cost - limit" in out
    assert "load_dataset" in out
    assert minari.load_dataset("lake/safe-v0").total_steps >= 100
    code, out, err = cmaxent("evaluate", "--dataset", "lake/safe-v0")
    assert (code, err) == (0, "")
    assert "Train longer" not in out
    code, out, err = cmaxent("evaluate", "--dataset", "lake/paid-v0", "--episodes", 8)
    assert (code, err) == (0, "")
    assert "8 episodes" in out


def test_uniform_actions_are_collected_by_an_id(cmaxent):
    words = ("collect", "SafeFrozenLake-v0", "--steps", 50, "--dataset", "lake/uniform-v0", "--quiet")
    code, _, err = cmaxent(*words)
    assert code == 2
    assert "--uniform" in err
    code, out, err = cmaxent(*words, "--uniform", "--limit", 0.2)
    assert (code, err) == (0, "")
    assert "cost - limit" in out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("evaluate", "--dataset", "lake/none-v0"), "no data set 'lake/none-v0'"),
        (("evaluate", "--dataset", "lake"), "is no name"),
        (("evaluate", "run", "--dataset", "lake/none-v0"), "one of them"),
        (("evaluate", "run", "--env-id", "CartPole-v1"), "only with --dataset"),
        (("evaluate", "run", "--periodic", "0"), "only with --dataset"),
    ],
)
def test_what_cannot_be_is_named(cmaxent, words, named):
    code, _, err = cmaxent(*words)
    assert code == 2
    assert named in " ".join(err.split())


def test_coordinates_may_be_angles(cmaxent):
    car = ("MountainCarContinuous-v0", "--env-kwargs", '{"max_episode_steps": 9}', "--state", 0, 1, "--periodic", 0)
    words = ("collect", *car, "--uniform", "--steps", 9, "--dataset", "car/uniform-v0", "--quiet")
    code, _, err = cmaxent(*words)
    assert (code, err) == (0, "")
    about = minari.load_dataset("car/uniform-v0").storage.metadata["constrained_maxent"]
    assert "periodic=[0]" in about["problem"]["estimator"]
    code, _, err = cmaxent("evaluate", "--dataset", "car/uniform-v0", "--env-id", *car)
    assert (code, err) == (0, "")
    code, _, err = cmaxent("evaluate", "--dataset", "car/uniform-v0", "--env-id", *car[:-1], 7)
    assert code == 2
    assert "periodic" in err
