"""A reference survives its file, and a file that is none is refused by name."""

import copy
import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from constrained_maxent.errors import DamagedReference, UnsupportedPolicy
from constrained_maxent.references import CallablePolicy, Reference
from constrained_maxent.types import Points

ROWS = np.random.default_rng(0).uniform(-0.9, 0.9, size=(20, 2))
POINTS = Points(density=np.ones(20), state_density=np.ones(20), states=ROWS, observations=ROWS, actions=ROWS[::-1])


@pytest.fixture
def file(small, tmp_path):
    small.reference.save(tmp_path / "folder" / "reference.npz")
    return tmp_path / "folder" / "reference.npz"


def rewritten(file, change):
    """The file with arrays and text changed."""
    with np.load(file) as archive:
        arrays = dict(archive)
    text = json.loads(arrays["text"].tobytes())
    change(arrays, text)
    if "text" in arrays:
        arrays["text"] = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
    np.savez(file, **arrays)
    return file


def test_bit_for_bit(small, file):
    again = Reference.load(file)
    np.testing.assert_array_equal(again(POINTS), small.reference(POINTS))
    np.testing.assert_array_equal(
        again.act(ROWS, np.random.default_rng(3)), small.reference.act(ROWS, np.random.default_rng(3))
    )
    assert again.about == small.reference.about
    assert again.states.mass == 0.8
    assert [path.name for path in file.parent.iterdir()] == ["reference.npz"]


def test_of_states_alone_with_an_angle(small, tmp_path):
    Reference(small.plane(periodic=(1,))).save(tmp_path / "states.npz")
    again = Reference.load(tmp_path / "states.npz")
    assert (again.policy, again.over, again.states.periodic) == (None, "state", (1,))
    np.testing.assert_array_equal(again(POINTS), small.plane(periodic=(1,)).density(ROWS))


def test_unbounded_log_std(small, tmp_path):
    Reference(small.plane(), small.network(log_std_bounds=(-np.inf, np.inf))).save(tmp_path / "free.npz")
    assert Reference.load(tmp_path / "free.npz").policy.log_std_bounds == (-np.inf, np.inf)


def test_pickled_and_copied(small):
    for again in (pickle.loads(pickle.dumps(small.reference)), copy.deepcopy(small.reference)):
        np.testing.assert_array_equal(again(POINTS), small.reference(POINTS))


def test_functions_pickle_and_are_not_saved(small, tmp_path):
    reference = Reference(small.plane(), CallablePolicy(np.vdot))
    assert pickle.loads(pickle.dumps(reference)).policy.log_probs is np.vdot
    with pytest.raises(UnsupportedPolicy, match="from_trajectories"):
        reference.save(tmp_path / "reference.npz")
    assert not (tmp_path / "reference.npz").exists()


def test_a_failed_save_leaves_the_earlier_file(small, file):
    before = file.read_bytes()
    with pytest.raises(TypeError):
        Reference(small.plane(), about={"what": object()}).save(file)
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


def test_refuses_what_is_no_reference(file, tmp_path):
    content = file.read_bytes()
    for wrong in (b"", b"PK", content[: len(content) // 2], b"text", pickle.dumps({"format": 1})):
        file.write_bytes(wrong)
        with pytest.raises(DamagedReference, match="truncated"):
            Reference.load(file)
    # One byte of the weights in a file without compression: only the checksum tells.
    file.write_bytes(content)
    data = bytearray(rewritten(file, lambda arrays, text: None).read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        start = archive.getinfo("means.npy").header_offset + 180
    data[start] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(DamagedReference):
        Reference.load(file)
    with pytest.raises(FileNotFoundError):
        Reference.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError):
        Reference.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, text: text.update(format=99), "format 99"),
        (lambda arrays, text: text.pop("mass"), "mass"),
        (lambda arrays, text: arrays.pop("means"), "means"),
        (lambda arrays, text: arrays.update(means=arrays["means"] * np.nan), "not finite"),
        (lambda arrays, text: arrays.update(covariances=-arrays["covariances"]), "positive definite"),
        (lambda arrays, text: text.update(periodic=[7]), "coordinates"),
        (lambda arrays, text: arrays.pop("mean 0 bias"), "lacks a part"),
        (lambda arrays, text: arrays.update(low=np.zeros(3)), "one length"),
        (lambda arrays, text: text["policy"]["activations"].update(trunk=["sine"]), "sine"),
        (lambda arrays, text: arrays.pop("text"), "no reference"),
        (lambda arrays, text: arrays.update(means=np.array([object()])), "no reference"),
    ],
)
def test_refuses_parts_that_do_not_fit(file, change, message):
    with pytest.raises(DamagedReference, match=message):
        Reference.load(rewritten(file, change))
