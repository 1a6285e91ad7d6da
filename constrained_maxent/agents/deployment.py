"""A policy as one file that PyTorch alone can run: from the environment's observations to its actions."""

from __future__ import annotations

import io
import json
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from constrained_maxent.agents.policies import CategoricalMLP, GaussianMLP, Policy, TabularSoftmax
from constrained_maxent.agents.pytorch import usual_numbers
from constrained_maxent.atomic import replacing
from constrained_maxent.errors import UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.spaces import FiniteSpace, from_rows, width
from constrained_maxent.spaces.rows import Composite, parts_of

DESCRIPTION = "description.json"
"""Name of the file within the file that says what goes in and comes out."""


def export(
    policy: Policy,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    path: str | PathLike[str],
) -> None:
    """Write a policy as a program of ``torch.export``; see :meth:`~constrained_maxent.agents.PGP.export`.

    Args:
        policy: what to write. It stays as it is.
        observation_space: of one environment, as the policy sees it.
        action_space: of one environment.
        path: of the file, ``.pt2`` by custom; folders are made.

    Raises:
        UnsupportedSpace: actions of a ``Tuple`` or ``Dict``, which are no tensor.
        UnsupportedPolicy: a network that PyTorch cannot write as a program.
        OSError: the file cannot be written; it is named.
    """
    with usual_numbers():
        deployed = _deployed(deepcopy(policy), observation_space, action_space).cpu().eval().requires_grad_(False)
        n = torch.export.Dim("n", min=1)
        example = _tensors(observation_space, from_rows(observation_space, np.zeros((2, width(observation_space)))))
        try:
            program = torch.export.export(deployed, (example,), dynamic_shapes=(_batched(observation_space, n),))
        except Exception as error:  # PyTorch's kinds differ by what it trips over, and by version
            raise UnsupportedPolicy(
                f"PyTorch cannot write this policy as a program ({str(error).strip().partition(chr(10))[0]}): its "
                "network must be made of PyTorch's functions, without branches that depend on values."
            ) from error
    description = {"observation": str(observation_space), "action": str(action_space), "torch": torch.__version__}
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    torch.export.save(program, written, extra_files={DESCRIPTION: json.dumps(description)})
    with replacing(target) as temporary:
        temporary.write_bytes(written.getbuffer())


def _deployed(policy: Policy, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> nn.Module:
    if isinstance(action_space, Composite):
        raise UnsupportedSpace(f"{action_space} is of parts, and a program returns one tensor of actions.")
    if isinstance(policy, GaussianMLP):
        return _Gaussian(policy, observation_space, action_space)
    if isinstance(policy, (CategoricalMLP, TabularSoftmax)):
        return _Categorical(policy, observation_space, action_space)
    raise UnsupportedPolicy(f"{type(policy).__name__} has no program: only this package's own policies have.")


class _Deployed(nn.Module):
    """Rows of observations, and the check that parameters and observations are numbers."""

    def __init__(self, policy: Policy, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__()
        self.policy, self._space = policy, observation_space
        self._shape, self._dtype = action_space.shape or (), _torch_dtype(action_space)

    def _rows(self, observation: Any) -> torch.Tensor:
        """Observations as ``spaces.as_rows`` has them, ``(n, width)``; whole numbers where all of them are."""
        parts = [part.reshape(part.shape[0], -1) for part in _leaves(self._space, observation)]
        return parts[0] if len(parts) == 1 else torch.cat([part.double() for part in parts], dim=1)

    def _of_space(self, values: torch.Tensor) -> torch.Tensor:
        return values.reshape(values.shape[0], *self._shape).to(self._dtype)


class _Gaussian(_Deployed):
    policy: GaussianMLP

    def forward(self, observation: Any) -> dict[str, torch.Tensor]:
        mean, log_std = self.policy.moments(_numbers(self._rows(observation)))
        torch._assert_async(torch.isfinite(mean).all() & torch.isfinite(log_std).all(), _NOT_FINITE)
        drawn = mean.double() + log_std.double().exp() * torch.randn_like(mean, dtype=torch.float64)
        squashing = self.policy.squashing
        return {
            "action": self._of_space(squashing.tensor_to_box(mean.double())),
            "sample": self._of_space(squashing.tensor_to_box(drawn)),
        }


class _Categorical(_Deployed):
    """Each component is drawn by itself; a table is a policy of one component."""

    policy: CategoricalMLP | TabularSoftmax
    first: torch.Tensor

    def __init__(
        self,
        policy: CategoricalMLP | TabularSoftmax,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
    ) -> None:
        super().__init__(policy, observation_space, action_space)
        actions = FiniteSpace(action_space)
        self.register_buffer("first", torch.tensor(actions.starts))
        self._states = FiniteSpace(observation_space) if isinstance(policy, TabularSoftmax) else None

    def forward(self, observation: Any) -> dict[str, Any]:
        rows = self._rows(observation)
        if isinstance(self.policy, TabularSoftmax):
            logits = [self.policy.theta.index_select(0, self._state_numbers(rows))]
        else:
            logits = self.policy.logits_at(_numbers(rows))
        torch._assert_async(torch.stack([torch.isfinite(own).all() for own in logits]).all(), _NOT_FINITE)
        # What is compared is what predict compares: for a table probabilities, where logits may differ by rounding.
        probabilities = [functional.softmax(own.double(), dim=1) for own in logits]
        scores = probabilities if isinstance(self.policy, TabularSoftmax) else logits
        return {
            "action": self._of_space(torch.stack([own.argmax(dim=1) for own in scores], dim=1) + self.first),
            "sample": self._of_space(torch.cat([own.multinomial(1) for own in probabilities], dim=1) + self.first),
            "probabilities": probabilities[0] if len(probabilities) == 1 else probabilities,
        }

    def _state_numbers(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of the table; an observation outside the space is an error, where arithmetic would find another row."""
        assert self._states is not None
        digits = rows.long() - torch.tensor(self._states.starts)
        number = torch.zeros_like(digits[:, 0])
        for i, size in enumerate(self._states.sizes):
            number = number * size + torch.arange(size).index_select(0, digits[:, i])
        return number


_NOT_FINITE = "An observation, or a parameter of the policy, is not a finite number."


def _numbers(rows: torch.Tensor) -> torch.Tensor:
    """As ``spaces.as_rows`` keeps what is not whole."""
    return rows.double() if rows.is_floating_point() else rows


def _torch_dtype(space: gym.Space[Any]) -> torch.dtype:
    return torch.as_tensor(np.empty(0, space.dtype)).dtype


def _leaves(space: gym.Space[Any], value: Any) -> list[Any]:
    """The tensors of an observation, in the order of its rows."""
    if not isinstance(space, Composite):
        return [value]
    return [leaf for key, part in parts_of(space).items() for leaf in _leaves(part, value[key])]


def _tensors(space: gym.Space[Any], batch: Any) -> Any:
    """A batch of observations as the program takes it."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _tensors(part, batch[key]) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_tensors(part, own) for part, own in zip(space.spaces, batch, strict=True))
    return torch.as_tensor(batch)


def _batched(space: gym.Space[Any], n: Any) -> Any:
    """The number of observations is free, their shapes are not."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _batched(part, n) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_batched(part, n) for part in space.spaces)
    return {0: n}
