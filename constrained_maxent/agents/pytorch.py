"""PyTorch's settings, which all of a process shares: what the agents here need, and what others chose put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

LARGEST_ALONE = 1_000_000
"""Most parameters for which one thread is enough."""


@contextmanager
def usual_numbers() -> Iterator[None]:
    """New tensors have 32 bits and lie on the processor, and gradients are computed, whatever is the default."""
    before = torch.get_default_dtype()
    with ExitStack() as resources:
        resources.enter_context(torch.inference_mode(False))
        resources.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":  # a context costs time in each of PyTorch's functions
            resources.enter_context(torch.device("cpu"))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def threads_for(n_parameters: int) -> Iterator[None]:
    """One thread where so many parameters are few; else as many as there are.

    The threads of a pool wait for each other, busily: small networks gain next to nothing by a second one on an idle
    machine, and lose much beside other processes.
    """
    before = torch.get_num_threads()
    if n_parameters <= LARGEST_ALONE:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device_named(name: str) -> torch.device:
    """A device that can be computed on.

    Raises:
        ValueError: there is none of this name here, or its tensors hold no numbers, as those of "meta".
    """
    try:
        device = torch.device(name)
        (torch.ones(2, device=device) + 1.0).sum().item()
    except Exception as error:  # kinds of devices differ in what they raise
        raise ValueError(str(error).strip().partition("\n")[0]) from error
    return device
