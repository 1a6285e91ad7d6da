"""The page of one run, from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation import LimitVerdict, RolloutEvaluation
from constrained_maxent.evaluation.limits import on_the_way
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.reporting.page import (
    Block,
    Commands,
    Facts,
    Folded,
    Heading,
    Key,
    Keys,
    Notes,
    Page,
    Section,
    Table,
    Words,
)
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.evaluation import evaluate
from constrained_maxent.runs.pictures import run_figures
from constrained_maxent.runs.provenance import differing, versions
from constrained_maxent.runs.reading import read_run
from constrained_maxent.runs.report.blocks import (
    certificate_blocks,
    commands,
    figure,
    how_it_ended,
    in_words,
    known_warnings,
    limit_blocks,
    parts,
    settings_of,
    tried,
    warning_blocks,
)
from constrained_maxent.runs.report.looks import picture, take_film
from constrained_maxent.runs.report.problem import learner_facts, problem_blocks
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.training import load_agent
from constrained_maxent.runs.warned import KeptWarnings, kept_warnings
from constrained_maxent.tracker import find_tracker


def run_page(folder: RunFolder) -> Page:
    """The page of a run; raises ``InvalidRun`` where the folder is none, or its files are damaged."""
    with kept_warnings() as warned:
        return _RunPage(folder).page(warned)


class _RunPage:
    """What is known of a run, section by section."""

    def __init__(self, folder: RunFolder) -> None:
        self.run, self.folder = read_run(folder), folder
        self.settings = settings_of(self.run)
        if self.run.is_ours and self.settings.found is None:
            raise InvalidRun(self.settings.reason)
        self.has_checkpoint = folder.checkpoint_path.exists()
        self.described = tried(self._describe)
        self.evaluates_now = self.has_checkpoint and self._lacks_evaluation()
        self.evaluation = tried(self._evaluation)
        self.rollouts = self._rollouts()
        self.figures = tried(lambda: run_figures(folder), KeyError)

    def _lacks_evaluation(self) -> bool:
        """Whether there is none, or it is of another policy: the training went on after it."""
        found = tried(self.folder.read_evaluation).found
        iteration = None if self.described.found is None else self.described.found.iteration
        return found is None or (iteration is not None and found.get("iteration") != iteration)

    def _evaluation(self) -> dict[str, Any]:
        if self.evaluates_now:
            evaluate(self.folder)
        return self.folder.read_evaluation()

    def _rollouts(self) -> RolloutEvaluation | None:
        if self.evaluation.found is None:
            return None
        try:
            return RolloutEvaluation.from_json(self.evaluation.found["rollouts"])
        except (KeyError, TypeError) as error:
            raise InvalidRun(
                f"{self.folder.evaluation_path} is damaged: remove it, and cmaxent evaluate {self.folder.path} writes "
                "it anew."
            ) from error

    def page(self, warned: KeptWarnings) -> Page:
        sections = [
            Section("What was asked", self._asked()),
            Section("How it ended", self._ended()),
            Section("What the policy does", self._pictures()),
            Section("Settings and versions", self._settings()),
            Section("To repeat it", self._repeat()),
        ]
        # What was warned as the page was made is known last.
        sections.insert(3, Section("Warnings", self._warnings(warned)))
        return Page(
            title=self.run.env_id,
            subtitle=self._subtitle(),
            head=[Keys(keys)] if (keys := self._keys()) else [],
            sections=sections,
            foot=f"Run folder {self.folder.path.name}, report by constrained-maxent {versions()['constrained-maxent']}",
        )

    def _subtitle(self) -> str:
        words = [self.run.agent, f"seed {self.run.seed}"]
        for name, unit in (("iterations", "iterations"), ("timesteps", "steps")):
            if name in self.run.summary:
                words.append(f"{self.run.summary[name]:,} {unit}")
        return ", ".join([*words, how_it_ended(self.run)])

    # How it ended.

    def limits(self) -> tuple[LimitVerdict, ...]:
        """Whether limits are kept, by the best that is known: exact values, fresh episodes, the last batch."""
        content = (self.evaluation.found or self.run.summary).get("limits") or ()
        return tuple(map(LimitVerdict.from_json, content))

    def _keys(self) -> list[Key]:
        keys = []
        exact, rollouts = (self.evaluation.found or self.run.summary).get("exact"), self.rollouts
        label = "objective" if rollouts is None else rollouts.label
        uniform = self._uniform()
        beside = "" if uniform is None else f"uniform actions: {figure(uniform)}"
        if exact is not None and exact["objective"] is not None:
            keys.append(Key(f"{label}, exact", figure(exact["objective"]), beside))
        elif rollouts is not None and rollouts.objective is not None:
            found = rollouts.objective
            keys.append(Key(label, figure(found.mean), beside))
        elif (estimate := self.run.summary.get("estimate")) and estimate.get("objective_fresh") is not None:
            keys.append(Key(f"{label}, last batch", figure(estimate["objective_fresh"]), beside))
        for verdict in self.limits():
            source = "exactly" if verdict.n_episodes is None else f"in {verdict.n_episodes} episodes"
            note = f"value − limit {figure(verdict.violation.mean)} {source}"
            keys.append(Key(f"{verdict.name}, limit {verdict.limit:g}", verdict.status, note, verdict.status))
        if certificate := self.run.summary.get("certificate"):
            keys.append(Key("below the optimum by", figure(certificate["gap"]), f"of {figure(certificate['optimum'])}"))
        return keys

    def _uniform(self) -> float | None:
        exact = self.run.summary.get("uniform_policy")
        if exact is not None:
            return None if exact["objective"] is None else float(exact["objective"])
        if self.evaluation.found is None:
            return None
        objective = self.evaluation.found["uniform"]["objective"]
        return None if objective is None else float(objective["mean"])

    def _ended(self) -> list[Block]:
        blocks = [*limit_blocks(self.limits()), Heading("Evaluation")]
        blocks += [self._table()] if self.rollouts is not None else self._last_batch()
        blocks += [Words(note, quiet=True) for note in self._notes()]
        return [*blocks, Heading("Certificate"), *certificate_blocks(self.run), Heading("Training"), *self._curves()]

    def _table(self) -> Table:
        """Fresh episodes of the policy and of uniform actions, with exact values where they are known."""
        assert self.rollouts is not None
        assert self.evaluation.found is not None
        exact = self.evaluation.found["exact"]
        uniform = RolloutEvaluation.from_json(self.evaluation.found["uniform"]).figures()
        known = {}
        if exact is not None:
            known = {self.rollouts.label: exact["objective"], "mass of λ": exact["mass"]}
            known |= {constraint_figure(name): value for name, value in exact["constraints"].items()}
        rows = []
        for name, estimate in self.rollouts.figures().items():
            mean, interval = parts(estimate)
            also = [figure(known.get(name))] if exact is not None else []
            other = figure(uniform[name].mean) if name in uniform else ""
            rows.append([in_words(name), mean, interval, *also, other])
        headings = ["", "mean", "95 % interval", *(["exact"] if exact is not None else []), "uniform actions"]
        iteration = self.evaluation.found["iteration"]
        caption = f"{self.rollouts.n_episodes} fresh episodes of the policy of iteration {iteration}"
        caption += ", rolled out for this report." if self.evaluates_now else "."
        return Table(headings, rows, caption)

    def _last_batch(self) -> list[Block]:
        why = self.evaluation.reason if self.has_checkpoint else self._without_policy("it was not evaluated")
        blocks: list[Block] = [Words(why)]
        estimate = self.run.summary.get("estimate")
        if estimate:
            rows = [["objective", figure(estimate.get("objective_fresh"))]]
            constraints = estimate.get("constraints_fresh") or {}
            rows += [[in_words(constraint_figure(name)), figure(value)] for name, value in constraints.items()]
            rows += [["episode length (steps)", figure(estimate.get("episode_length"))]]
            blocks.append(Table(["", "last batch"], [row for row in rows if row[1]], "The last batch of the training."))
        return blocks

    def _without_policy(self, consequence: str) -> str:
        if not self.run.is_ours:
            return f"Of {self.run.agent} the run folder holds no policy that reports read: {consequence}."
        return (
            f"There is no checkpoint, as the run ended before its first one: {consequence}. "
            f"cmaxent train --resume needs one, too: train anew."
        )

    def _notes(self) -> list[str]:
        notes = []
        found = self.evaluation.found or self.run.summary
        if found.get("no_exact"):
            notes.append(f"No exact values. {found['no_exact']}")
        rollouts = self.rollouts
        if rollouts is None:
            return notes
        if rollouts.objective is not None:
            notes.append(
                "The objective is a plug-in estimate, low for few episodes; its interval holds the estimated occupancy."
            )
        for name, sizes in rollouts.cell_sizes.items():
            notes.append(f"{name}: the entropy of cells of {' × '.join(f'{size:.3g}' for size in sizes)}.")
        if rollouts.states is not None and rollouts.states.units:
            notes.append(f"The state entropy is that of a density per {'·'.join(rollouts.states.units)}.")
        if rollouts.states is not None and rollouts.states.coverage is not None:
            notes.append(f"Grid cells are counted in {rollouts.states.coverage.n_states:,} steps.")
        return [" ".join(notes)] if notes else []

    # What was asked, curves and pictures.

    def _describe(self) -> _Described:
        settings = self.settings.found
        if settings is None:
            raise InvalidRun(self.settings.reason)
        with closing(make_environment(self.run.env_id, settings)) as env:
            if not self.has_checkpoint:
                return _Described(problem_blocks(env, None))
            agent, tracker = load_agent(self.folder, env), find_tracker(env)
            plan = tracker.state_dict()["plan"] or {}
            learner = learner_facts(agent)
            problem = problem_blocks(env, agent)
            return _Described(problem, agent.iteration, on_the_way(tracker), plan.get("iterations"), learner)

    def _asked(self) -> list[Block]:
        if self.described.found is None:
            return [Words(f"The problem is not known, as its environment cannot be made. {self.described.reason}")]
        return [*self.described.found.problem]

    def _curves(self) -> list[Block]:
        sentences = [] if self.described.found is None else self.described.found.on_the_way
        blocks: list[Block] = [Words(sentence) for sentence in sentences]
        if self.figures.found is None:
            why = self.figures.reason if self.has_checkpoint else self._without_policy("there are no figures")
            return [*blocks, Words(f"No curves. {why}")]
        return [*blocks, picture(self.folder.training_figure_path.name, self.figures.found)]

    def _pictures(self) -> list[Block]:
        if not self.has_checkpoint:
            return [Words(self._without_policy("there is nothing to look at"))]
        names = [path.name for path in self.figures.found or ()]
        blocks: list[Block] = [picture(name, self.figures.found or {}) for name in names if name != "training.png"]
        # What renders is anybody's code; whatever it raises, the report is there all the same.
        film = tried(lambda: take_film(self.folder), Exception)
        return [*blocks, film.found if film.found is not None else Words(f"No film. {film.reason}")]

    # Warnings, settings, versions, command.

    def _warnings(self, warned: KeptWarnings) -> list[Block]:
        known = {(entry["category"], entry["message"]) for entry in known_warnings(self.run) or ()}
        new = [entry for entry in warned.entries if (entry["category"], entry["message"]) not in known]
        if not new:
            return warning_blocks(self.run)
        notes = Notes([(entry["category"], "", entry["message"]) for entry in new])
        return [*warning_blocks(self.run), Words("Given while this report was made:"), notes]

    def _settings(self) -> list[Block]:
        blocks: list[Block] = []
        if (settings := self.settings.found) is not None:
            given = dict(differing(self.run.env_id, settings))
            blocks.append(
                Facts(as_words(given)) if given else Words("All settings are the usual ones of this environment.")
            )
        if self.described.found is not None and self.described.found.learner:
            blocks.append(Folded("What the agent ran with", [Facts(as_words(self.described.found.learner))]))
        everything = dict(self.run.config["settings"])
        agent = everything.pop("agent", {})
        everything |= agent if isinstance(agent, dict) else {"agent": agent}
        everything = {name: value for name, value in everything.items() if value is not None}
        blocks.append(Folded("All settings that config.json has", [Facts(as_words(everything))]))
        if trained_with := self.run.summary.get("versions"):
            blocks.append(Table(["", "version"], [[*item] for item in trained_with.items()], "Trained with"))
        return blocks

    def _repeat(self) -> list[Block]:
        to_type = commands(self.run, None if self.described.found is None else self.described.found.planned)
        if not to_type:
            return [Words(f"The command that trained {self.run.agent} is not known: a sweep, or a program of its own.")]
        words = "The same settings; on the same machine with the same versions, the same numbers."
        if len(to_type) > 1:
            words += " The schedules ended where the first command ends, and the run went on."
        return [Commands(to_type), Words(words, quiet=True)]


@dataclass(frozen=True)
class _Described:
    """What only the environment, with the agent on it, tells of a run."""

    problem: Sequence[Block]
    iteration: int | None = None
    on_the_way: Sequence[str] = ()
    planned: int | None = None
    learner: Mapping[str, Any] = field(default_factory=dict)


def as_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Settings as they are shown."""
    return {name.replace("_", " "): "—" if value is None else _word(value) for name, value in facts.items()}


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return str(value)
