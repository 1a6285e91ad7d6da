"""One training run: environment, agent, run folder. What ``cmaxent train`` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from constrained_maxent.agents import PGP, IterationReport
from constrained_maxent.agents.checkpoints import put_back, snapshot
from constrained_maxent.errors import FolderInUse, InvalidRun
from constrained_maxent.evaluation import exact_problem
from constrained_maxent.evaluation.limits import judge_exactly, judge_last_batch, on_the_way
from constrained_maxent.runs.environments import completed, lacks_cost, make_environment, with_chosen_state
from constrained_maxent.runs.interrupts import stop_on_request
from constrained_maxent.runs.ledger import Ledger
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.provenance import versions
from constrained_maxent.runs.recorder import Learner, Recorder, columns, exact_evaluation
from constrained_maxent.runs.run_folder import OWN_AGENT, RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.summary import add_certificate, summary_of
from constrained_maxent.runs.warned import KeptWarnings, kept_warnings
from constrained_maxent.tracker import find_tracker

if TYPE_CHECKING:  # the convex solver takes a second to import
    from constrained_maxent.oracle import Certificate


@dataclass(frozen=True)
class Result:
    """What a run ended with.

    Attributes:
        summary: the content of ``summary.json``.
        agent: as it is after training.
        limits: whether each limit is kept, and how far it was broken on the way, in sentences.
        certificate: how far it is from the optimum, where that is quickly found.
        no_certificate: why there is none, where one might be expected: nobody can keep the limit, for example.
        interrupted: whether Ctrl-C ended it before its time.
        first_batch: what ``summary["estimate"]`` says of the last, of a policy nearly uniform; ``None`` if the run goes
            on from a later one.
        lacks_cost: whether there was no constraint because no step reports a cost.
    """

    folder: RunFolder
    summary: Mapping[str, Any]
    agent: Learner
    limits: tuple[str, ...]
    certificate: Certificate | None
    no_certificate: str | None
    interrupted: bool
    lacks_cost: bool
    first_batch: Mapping[str, Any] | None = None


def train(
    env_id: str, settings: TrainSettings, folder: RunFolder, *, overwrite: bool = False, progress_bar: bool = False
) -> Result:
    """Train from the beginning.

    Args:
        env_id: any registered id.
        overwrite: whether to replace a run that is in the folder.
        progress_bar: show time left, entropy and constraint values.

    Raises:
        InvalidRun: the folder holds a run already, and ``overwrite`` is not set; or files that are no run's.
        FolderInUse: another process trains in the folder, or records into the same data set.
        InvalidDataset: there is a data set of the name ``settings.record``, or a beginning of one, of another training.
        InvalidSetting, UnsupportedSpace: environment or agent cannot be made.

    Whatever fails before the first iteration is over, a reference of another state for example, nothing but
    empty folders is written, nothing is removed, and a run that is to be replaced is still there. After whatever fails
    later, environment and agent included, the last finished iteration is saved, and a note of the exception says so.
    """
    settings = completed(env_id, settings)
    with folder.held() as lock:
        return train_held(env_id, settings, folder, lock, overwrite=overwrite, progress_bar=progress_bar)


def train_held(
    env_id: str,
    settings: TrainSettings,
    folder: RunFolder,
    lock: Lock,
    *,
    overwrite: bool = False,
    progress_bar: bool = False,
) -> Result:
    """:func:`train` in a folder that is this process's already, with settings that are completed."""
    with kept_warnings() as warned:
        folder.create(overwrite=overwrite)
        env = make_environment(env_id, settings)
        settings = with_chosen_state(settings, env)
        try:
            agent = PGP(env, settings.agent, seed=settings.seed)
        except BaseException:
            env.close()
            raise
        config = config_of(env_id, settings)
        return run_held(config, settings, folder, lock, agent, folder.clear, warned, progress_bar=progress_bar)


def resume(
    folder: RunFolder, *, iterations: int | None = None, extend: bool = False, progress_bar: bool = False
) -> Result:
    """Continue a run from its last checkpoint, so that it ends as if it had never stopped.

    Args:
        iterations: where to end now; by default where the run was to end.
        extend: whether schedules end there too. Otherwise they keep the end that the first training planned, and more
            iterations go on at their last values.
        progress_bar: show time left, entropy and constraint values.

    Raises:
        InvalidRun: no run folder, no checkpoint, damaged metrics, or nothing is left to do.
        FolderInUse: another process trains in the folder, or records into the same data set.
        InvalidDataset: what the run recorded before is not there.
        DamagedCheckpoint, CheckpointMismatch: the checkpoint cannot be used.

    In each case nothing is changed.
    """
    load_config(folder)  # what is no run folder is not made one
    with folder.held() as lock:
        return resume_held(folder, lock, iterations=iterations, extend=extend, progress_bar=progress_bar)


class NothingLeft(InvalidRun):
    """A run has done all its iterations already."""


def resume_held(
    folder: RunFolder, lock: Lock, *, iterations: int | None = None, extend: bool = False, progress_bar: bool = False
) -> Result:
    """:func:`resume` in a folder that is this process's already. Where nothing is left to do: NothingLeft."""
    with kept_warnings(folder.read_warnings()) as warned:
        return _resume(folder, lock, iterations, extend, progress_bar, warned)


def _resume(
    folder: RunFolder, lock: Lock, iterations: int | None, extend: bool, progress_bar: bool, warned: KeptWarnings
) -> Result:
    env_id, settings = load_config(folder)
    if iterations is not None:
        settings = replace(settings, iterations=iterations)
    env = make_environment(env_id, settings)
    try:
        agent = load_agent(folder, env)
        if agent.iteration >= _iterations(settings):
            made = Ledger.finish(env_id, settings, env, until=agent.iteration)
            raise NothingLeft(
                f"{folder.path} has done {agent.iteration} iterations already{made}: give --iterations a larger number."
            )
        folder.require_metrics(columns(agent))
    except BaseException:
        env.close()
        raise

    done = agent.iteration

    def begin() -> None:
        folder.keep_metrics_until(done)
        for path in (folder.summary_path, folder.evaluation_path):
            path.unlink(missing_ok=True)  # it would pass for that of the run to come

    if extend:
        find_tracker(env).announce(iterations=_iterations(settings), replace_plan=True)
    config = config_of(env_id, settings)
    return run_held(config, settings, folder, lock, agent, begin, warned, progress_bar=progress_bar)


def config_of(env_id: str, settings: TrainSettings) -> dict[str, Any]:
    """The content of ``config.json`` of a run of PGP."""
    return {"env_id": env_id, "settings": settings.to_json()}


def load_config(folder: RunFolder) -> tuple[str, TrainSettings]:
    """Environment id and settings of a run of PGP.

    Raises:
        InvalidRun: they are missing or make no sense; or the run keeps no agent of this package.
    """
    config = folder.read_config()
    if (agent := config.get("agent", OWN_AGENT)) != OWN_AGENT:
        raise InvalidRun(
            f"{folder.path} is a run of {agent}, whose model this command does not read: adapters.sb3.load takes its "
            f"{folder.model_path.name}; {folder.summary_path.name} and {folder.metrics_path.name} say how it ended."
        )
    if config.get("compiled", False):
        raise InvalidRun(
            f"{folder.path} was computed by the compiled engine, which keeps no agent: {folder.summary_path.name} has "
            "its exact values. A run without --compiled keeps one."
        )
    return config["env_id"], completed(config["env_id"], TrainSettings.from_json(config["settings"]))


def _iterations(settings: TrainSettings) -> int:
    assert settings.iterations is not None, "completed() comes first"
    return settings.iterations


def load_agent(folder: RunFolder, env: gym.vector.VectorEnv[Any, Any, Any]) -> PGP:
    """The agent of a run's checkpoint. Raises InvalidRun if there is none."""
    if not folder.checkpoint_path.exists():
        raise InvalidRun(f"{folder.path} has no checkpoint: the run ended before its first one. Train anew.")
    return PGP.load(folder.checkpoint_path, env)


def run_held(
    config: Mapping[str, Any],
    settings: TrainSettings,
    folder: RunFolder,
    lock: Lock,
    agent: Learner,
    begin: Callable[[], None],
    warned: KeptWarnings,
    *,
    progress_bar: bool = False,
) -> Result:
    """Train on; ``begin`` prepares the folder once the first iteration is over, and nothing is written before.

    Args:
        config: what ``config.json`` is to hold: ``env_id``, ``settings``, and the third party's ``agent``.
        settings: completed; of a third party those of environment, problem and run.
        warned: what is warned meanwhile.
    """
    # Before anything is replaced it is known that there is TensorBoard.
    import torch.utils.tensorboard  # noqa: F401

    env_id, iterations, since = config["env_id"], _iterations(settings), agent.iteration
    warned.iteration = since
    steps_before = agent.timesteps
    recorder: Recorder | None = None
    finished: dict[str, Any] | None = None
    with ExitStack() as resources:
        resources.enter_context(closing(agent.env))
        ledger: Ledger | None = None
        if settings.record is not None:
            replaces = since == 0 and _recorded_into(folder) == settings.record
            ledger = Ledger(env_id, settings, agent.env, since=since, replaces=replaces)
            resources.enter_context(ledger.held())
        problem, no_exact = exact_problem(agent.env)
        without_cost = lacks_cost(env_id, settings, agent.env)
        begun = time.perf_counter()
        resources.enter_context(lock.renewed())
        interrupts = resources.enter_context(stop_on_request())

        def keep() -> None:
            if ledger is not None:
                ledger.write()
            if warned.entries:
                folder.write_json(folder.warnings_path, {"warnings": warned.entries})

        def record(learner: Learner, report: IterationReport) -> bool:
            nonlocal recorder, finished
            warned.iteration = learner.iteration
            with interrupts.within_iterations(is_iterating=False):
                lock.check()
                if recorder is None:
                    begin()
                    folder.write_json(folder.config_path, config)
                    recorder = Recorder(
                        folder, settings, problem, learner, since=since, begun=begun, before_checkpoint=keep
                    )
                    resources.enter_context(closing(recorder))
                    if ledger is not None:
                        ledger.begin()
                if ledger is not None:
                    ledger.write_if_much()
                recorder.record(learner, report)
                finished = snapshot(learner)
            return not interrupts.asked

        try:
            with interrupts.within_iterations():
                agent.learn(iterations=iterations - since, callback=record, progress_bar=progress_bar)
        except BaseException as error:  # environments may call sys.exit(), too
            if recorder is None or finished is None or isinstance(error, FolderInUse):
                raise
            put_back(finished, agent)  # it stands in the midst of an iteration
            if not isinstance(error, KeyboardInterrupt):
                error.add_note(_saved(recorder, agent, folder))
                raise
        assert recorder is not None, "there is at least one iteration to do"
        recorder.checkpoint(agent)
    lock.check()
    if recorder.contradiction is not None:
        problem, no_exact = None, recorder.contradiction
    seconds = time.perf_counter() - begun
    interrupted = agent.iteration < iterations
    tracker, exact = find_tracker(agent.env), exact_evaluation(problem, agent)
    limits = judge_last_batch(tracker) if exact is None else judge_exactly(tracker.problem.constraints, exact)
    summary = summary_of(
        config,
        interrupted=interrupted,
        iterations=agent.iteration,
        timesteps=agent.timesteps,
        seconds=recorder.seconds,
        steps_per_second=(agent.timesteps - steps_before) / seconds,
        estimate=recorder.last,
        problem=problem,
        exact=exact,
        no_exact=no_exact,
        limits=limits,
        while_training={name: asdict(record) for name, record in tracker.violations.items()},
        cell_sizes=tracker.problem.cell_sizes,
        warnings=warned.entries,
        versions=versions(),
    )
    if ledger is not None:
        folder.write_json(folder.summary_path, summary)  # of many short episodes the data set takes minutes
        with ledger.held():
            ledger.publish(until=agent.iteration)
    policy = agent.policy_table() if agent.is_tabular else None
    certificate, no_certificate = add_certificate(folder, summary, problem, policy)
    limits_in_words = (*map(str, limits), *on_the_way(tracker))
    return Result(
        folder, summary, agent, limits_in_words, certificate, no_certificate, interrupted, without_cost, recorder.first
    )


def _recorded_into(folder: RunFolder) -> Any:
    """The data set of the run that is in a folder, if there is one."""
    with suppress(InvalidRun):
        return folder.read_config()["settings"].get("record")
    return None


def _saved(recorder: Recorder, agent: Learner, folder: RunFolder) -> str:
    """Save what a failure has left, and say how to go on."""
    done = f"Iteration {agent.iteration}, the last one that was finished, is saved"
    try:
        recorder.checkpoint(agent)
    except OSError as error:
        if not (folder.checkpoint_path.exists() or folder.model_path.exists()):
            return f"Nothing of the run could be saved ({error})."
        done = f"Later iterations could not be saved ({error}), but there is an earlier checkpoint"
    if not folder.checkpoint_path.exists():  # of a third party, in a file of its own
        return f"{done}."
    return f"{done}. To go on, once the cause is removed: cmaxent train --resume {folder.path}"
