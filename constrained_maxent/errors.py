"""The named errors: each says what is wrong and what to do, and leaves the caller's objects usable."""

from __future__ import annotations


class ConstrainedMaxentError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidSetting(ConstrainedMaxentError, ValueError):
    """An argument or option has a value that makes no sense."""


class UnsupportedFunctional(InvalidSetting):
    """A functional of λ cannot do what is asked of it. What it can do, it says by overriding methods of ``Functional``.

    Attributes:
        functional: name of the functional's class.
        capability: what it lacks.
        remedy: how to supply it.
    """

    def __init__(self, functional: str, capability: str, remedy: str) -> None:
        super().__init__(functional, capability, remedy)
        self.functional, self.capability, self.remedy = functional, capability, remedy

    def __str__(self) -> str:
        return f"{self.functional} has no {self.capability}: {self.remedy}"


class InvalidData(ConstrainedMaxentError, ValueError):
    """Arrays disagree in shape, length or type."""


class NonFiniteValue(InvalidData):
    """An observation, cost, reward or probability is NaN or infinite."""


class MissingCost(ConstrainedMaxentError, LookupError):
    """A constraint watches a cost that the environment did not report. A missing cost is never taken as 0."""


class MissingState(ConstrainedMaxentError, LookupError):
    """The occupancy is over a state that the environment did not report."""


class NotFitted(ConstrainedMaxentError, RuntimeError):
    """An estimator is asked for an estimate before its first ``fit``."""


class UnsupportedSpace(ConstrainedMaxentError, TypeError):
    """An observation or action space cannot be handled by the chosen part."""


class MissingTracker(ConstrainedMaxentError, TypeError):
    """A constraint or objective wrapper has no ``TrackOccupancy`` below it."""


class SeparateEstimates(ConstrainedMaxentError, UserWarning):
    """Copies of an environment bring an occupancy estimate each, where one agent learns from all of them.

    Raised where that is certain, and a warning where it only looks like it.
    """


class DuplicateName(ConstrainedMaxentError, ValueError):
    """Two constraints carry the same name."""


class UnknownAutoreset(ConstrainedMaxentError, ValueError):
    """A vector environment does not say how it resets its sub-environments."""


class InvalidMDP(InvalidData):
    """Transition probabilities, start distribution or policy are not what a Markov decision process needs."""


class UnknownProcess(InvalidMDP):
    """The dynamics that an environment publishes are not, or need not be, those of what is stepped."""


class DamagedCheckpoint(ConstrainedMaxentError, RuntimeError):
    """A checkpoint file cannot be read: truncated, corrupt, or not a checkpoint."""


class CheckpointMismatch(ConstrainedMaxentError, ValueError):
    """A checkpoint belongs to another environment, agent or format version."""


class DamagedReference(ConstrainedMaxentError, RuntimeError):
    """A reference file cannot be read: truncated, corrupt, of another version, or no reference."""


class UnsupportedPolicy(ConstrainedMaxentError, TypeError):
    """A policy has no log-probabilities that can be computed, or cannot be stored as plain data."""


class InfeasibleProblem(ConstrainedMaxentError, ValueError):
    """No occupancy measure satisfies all constraints.

    Attributes:
        slacks: by how much each constraint must be loosened at least, in its own units; 0 for those that do not clash.
    """

    def __init__(self, message: str, slacks: dict[str, float] | None = None) -> None:
        super().__init__(message)
        self.slacks = dict(slacks or {})


class InvalidRun(ConstrainedMaxentError, ValueError):
    """A run folder lacks what is asked of it, or holds something else."""


class InvalidDataset(ConstrainedMaxentError, ValueError):
    """A data set lacks what is asked of it, cannot be read, or is another's."""


class FolderInUse(InvalidRun):
    """Another process writes into a run folder; the message names it."""


class InsufficientMemory(ConstrainedMaxentError, MemoryError):
    """What is asked for needs more memory than there is."""


class UnplannedRun(UserWarning):
    """Schedules run over the progress of a run whose end nobody has announced, or which goes on past it; a warning."""


class RedundantObservation(UserWarning):
    """Coordinates of an observation depend on each other, so that it has no density; a warning."""


class ContradictedDynamics(UserWarning):
    """Episodes contradict the dynamics or costs that their environment publishes; a warning."""


class DistortingLayer(UserWarning):
    """A layer below ``TrackOccupancy`` normalizes, delays or stacks what λ̂, costs or rewards are made of; a warning."""


class HorizonMismatch(UserWarning):
    """Episodes are cut before the horizon, so that λ̂ has less mass than the problem means; a warning."""


class PartialEpisodes(UserWarning):
    """Batches show one short part of an episode each, so that λ̂ is not that of the policy; a warning."""


class EndlessEpisode(UserWarning):
    """An episode goes on where its steps count for nothing any more; a warning."""


class ReusedObservation(UserWarning):
    """The last observations of episodes look overwritten by the next episodes' first ones; a warning."""


class IntegerInfo(UserWarning):
    """Costs or states of vector copies arrive as whole numbers, to which Gymnasium may have cut them; a warning."""


class EndsRewarded(UserWarning):
    """In the units used each step of life lowers the objective, so that the agent is paid for ending episodes; a
    warning.
    """


class DegenerateDensity(UserWarning):
    """States have no density, or lie where the estimate of it ends, so that its figures mean little; a warning."""


class MixedState(UserWarning):
    """Coordinates of the state take few values, so that they are counted and not measured; a warning."""


class UnlikeTraining(UserWarning):
    """An expert earns far less than in its training, so that it is not the same environment to it; a warning."""


class NoActionEntropy(UserWarning):
    """The objective is over states and actions, and the agent's actions have no entropy, or none that is known; a
    warning.
    """


class UnseenObservation(UserWarning):
    """An agent does not see parts of the observation, as they have no numbers; a warning."""


class StaleRewards(UserWarning):
    """An agent replays rewards of estimates that have changed since; a warning."""


class NotEvaluated(UserWarning):
    """A policy cannot be evaluated while it learns, so that only values by λ̂ are logged; a warning."""


class MovingReward(UserWarning):
    """Somebody scores a policy by rewards that move with the estimate, and feeds it; a warning."""


class UnevenRuns(UserWarning):
    """Runs that are compared had unlike chances: other lengths, unfinished, failed, or measured unlike; a warning."""
