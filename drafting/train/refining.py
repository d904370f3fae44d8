"""A training from beginning to end: the target reads a sample of the text, a draft learns what it says, and is asked
before and after about text that was held out.

A folder keeps all of it, so that an interrupted training goes on. Knows nothing of where text comes from, nor whether
what comes out is worth its time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ghostdraft.drafting.train import export
from ghostdraft.drafting.train.beginnings import Target, new_network, stored_network
from ghostdraft.drafting.train.recipes import Marks, Recipe, lesson_loss, marks, recipe_for
from ghostdraft.drafting.train.sequences import Documents, Markers, Sampler, markers_of
from ghostdraft.drafting.train.teacher import Exam, Halted, Lessons, best_tokens, teach
from ghostdraft.drafting.train.trainer import Loss, Plan, Trainer, step_seconds
from ghostdraft.drafting.train.vocabulary import usual_tokens
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.costs import Costs
from ghostdraft.models.draft_file import ENDING, DraftKind, read_draft, read_tensors
from ghostdraft.models.types import IntArray, LanguageModel, ModelSpec, OutOfSpace, Tokenizer

LENGTH = 512  # tokens of a sequence
EXAM = 24  # sequences
EXAM_SEED = 1  # the same questions for all trainings
TEACHING = 0.35  # of the time
ROUNDS = 2  # times that the text is read, at most
LEAST_LESSONS, LEAST_STEPS = 8, 10
SURE = 0.85  # of the steps that seem to fit into the time
PLAN, BEST, CHECKPOINT = "plan.json", "best.npy", "last.pt"


class TooShort(Exception):
    """There is too little text to learn from, or to be asked about."""


class Stage(StrEnum):
    EXAM = "the model reads what is held out"
    TEACHING = "the model reads what is to be learned"
    LEARNING = "the draft learns"
    ASKING = "the draft is asked about what is held out"


Watch = Callable[[Stage, int, int], None]  # done, in all


@dataclass(frozen=True, slots=True)
class Material:
    """By language, what to learn from, and what is asked about; `start`: what the target's prompts begin with."""

    train: Mapping[str, Documents]
    heldout: Mapping[str, Documents]
    markers: Markers | None
    start: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        train: Mapping[str, Documents],
        heldout: Mapping[str, Documents],
        spec: ModelSpec,
        tokenizer: Tokenizer,
    ) -> Material:
        """For this target."""
        return cls(train, heldout, markers_of(spec, tokenizer), () if spec.bos_token is None else (spec.bos_token,))

    def sampler(self, documents: Mapping[str, Documents], length: int, seed: int) -> Sampler:
        """Raises TooShort."""
        try:
            return Sampler(documents, self.markers, length, seed, self.start)
        except ValueError as error:
            raise TooShort(str(error)) from error

    @property
    def tokens(self) -> int:
        """To learn from."""
        return sum(len(one.tokens) for one in self.train.values())


@dataclass(frozen=True, slots=True)
class Job:
    """`base`: the draft to begin from, one of the same kind, or a draft model for an EAGLE; None: a new network.
    `scope` says whose text it is. A folder whose job was another one begins anew; `texts`, where lessons are kept, may
    be shared with other kinds. `teaching`: of the time. 0 lessons or steps: as many as fit into the time. `rate`: of
    the usual learning rates."""

    folder: Path
    texts: Path
    checkpoint: Checkpoint
    kind: DraftKind
    material: Material
    scope: str
    base: Path | None
    seconds: float
    seed: int
    teaching: float = TEACHING
    lessons: int = 0
    steps: int = 0
    rate: float = 1.0

    @property
    def key(self) -> str:
        base = hashlib.sha256(self.base.read_bytes()).hexdigest() if self.base else ""
        return json.dumps([self.checkpoint.name, self.kind, self.scope, base, self.seed])

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return min(LENGTH, self.checkpoint.spec.shape.context)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`draft`: the file; its marks `after`, and those `before` of the base, where that is of the same kind."""

    draft: Path
    before: Marks | None
    after: Marks
    steps: int
    lessons: int


class Training:
    """One run of a job; an earlier one may have begun it. The target is `model`, whose passes take what `costs` say."""

    def __init__(self, job: Job, model: LanguageModel, costs: Costs, watch: Watch, halted: Halted) -> None:
        self._job, self._model, self._watch, self._halted = job, model, watch, halted
        self._started = time.monotonic()
        self._plan = _opened_plan(job, costs)

    def run(self) -> Outcome:
        """Raises KeyboardInterrupt where it was halted, once what was learned so far is kept; TooShort, ModelError."""
        exam, lessons = self._exam(), self._lessons()
        target = Target.of(self._job.checkpoint, self._vocabulary())
        recipe = recipe_for(self._network(target), target.head)
        before = self._asked(recipe, target, exam) if self._goes_on else None
        steps = self._learn(recipe.network, lesson_loss(recipe, target, lessons, self._job.seed))
        card = {"steps": steps, "sequences": lessons.done, "seed": self._job.seed}
        export.restore(recipe.network, read_tensors(self._save(recipe.network, target, card)))  # as it will run
        after = self._asked(recipe, target, exam)
        path = self._save(recipe.network, target, card | asdict(after))
        return Outcome(path, before, after, steps, lessons.done)

    @property
    def _goes_on(self) -> bool:
        """Whether the base is a draft of the kind that comes out."""
        return self._job.base is not None and read_draft(self._job.base).kind is self._job.kind

    def _exam(self) -> Exam:
        sampler = self._job.material.sampler(self._job.material.heldout, self._job.length, EXAM_SEED)
        lessons = self._taught(Stage.EXAM, sampler, EXAM, self._halted)
        path = self._job.texts / BEST
        if not path.exists():
            token_ids, _ = lessons.take(np.arange(EXAM, dtype=np.int32))
            np.save(path, np.stack([best_tokens(self._model, one) for one in token_ids]))
        return Exam(lessons, np.load(path))

    def _lessons(self) -> Lessons:
        """As many as there is time for."""
        sampler = self._job.material.sampler(self._job.material.train, self._job.length, self._job.seed)
        end = time.monotonic() + self._job.teaching * self._job.seconds
        return self._taught(
            Stage.TEACHING, sampler, self._plan.lessons, lambda: self._halted() or time.monotonic() > end
        )

    def _taught(self, stage: Stage, sampler: Sampler, count: int, halted: Halted) -> Lessons:
        lessons = Lessons(self._job.texts / stage.name.lower(), count, self._job.length, self._model.shape.hidden)
        watch = partial(self._watch, stage)
        teach(self._model, lessons, lambda number: sampler.batch(number, 1)[0], watch, halted)
        if self._halted():
            raise KeyboardInterrupt
        return lessons

    def _vocabulary(self) -> IntArray:
        """That of the draft which is refined; a new one has what is usual in the text."""
        if self._job.base:
            return read_draft(self._job.base).vocabulary
        spec = self._job.checkpoint.spec
        return usual_tokens(self._job.material.train, spec.shape.vocab, spec.stop_tokens)

    def _network(self, target: Target) -> nn.Module:
        torch.manual_seed(self._job.seed)
        if self._job.base:
            return stored_network(self._job.base, self._job.kind, target)
        return new_network(self._job.kind, target)

    def _asked(self, recipe: Recipe, target: Target, exam: Exam) -> Marks:
        self._watch(Stage.ASKING, 0, EXAM)
        return marks(recipe, target, exam)

    def _learn(self, network: nn.Module, loss: Loss) -> int:
        """The number of steps by now."""
        trainer, plan = Trainer(network, loss, self._job.folder / CHECKPOINT), self._learning(network, loss)
        for done in trainer.run(plan):
            self._watch(Stage.LEARNING, done.step, plan.steps)
            if self._halted():
                trainer.keep()
                raise KeyboardInterrupt
        return trainer.step

    def _learning(self, network: nn.Module, loss: Loss) -> Plan:
        left = self._started + self._job.seconds - time.monotonic()
        if not self._plan.steps:
            steps = max(LEAST_STEPS, round(SURE * left / step_seconds(network, loss)))
            self._plan = replace(self._plan, steps=steps)
            _keep(self._job.folder, self._plan)
        return Plan(self._plan.steps, max(0.0, left), self._job.rate)

    def _save(self, network: nn.Module, target: Target, card: Mapping[str, Any]) -> Path:
        path = self._job.folder / f"{self._job.kind}{ENDING}"
        export.save(path, network, export.Target(self._job.checkpoint.name, target.shape), target.vocabulary, card)
        return path


@dataclass(frozen=True, slots=True)
class Decided:
    """When the training began: `key` says which it is. How many lessons, and how many steps; 0: not decided yet."""

    key: str
    lessons: int
    steps: int = 0


def _opened_plan(job: Job, costs: Costs) -> Decided:
    """What an earlier run of the job decided, or what is decided now."""
    path = job.folder / PLAN
    if path.exists() and (found := Decided(**json.loads(path.read_text("utf-8")))).key == job.key:
        return found
    shutil.rmtree(job.folder, ignore_errors=True)
    decided = Decided(job.key, job.lessons or _lesson_count(job, costs), job.steps)
    _check_room(job, decided.lessons)
    _keep(job.folder, decided)
    return decided


def _keep(folder: Path, decided: Decided) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / (PLAN + ".part")
    unfinished.write_text(json.dumps(asdict(decided)), "utf-8")
    os.replace(unfinished, folder / PLAN)


def _lesson_count(job: Job, costs: Costs) -> int:
    readable = job.teaching * job.seconds * costs.prefill_rate / job.length
    return max(LEAST_LESSONS, round(min(readable, ROUNDS * job.material.tokens / job.length)))


def _check_room(job: Job, count: int) -> None:
    size = 2 * (count + EXAM) * job.length * job.checkpoint.spec.shape.hidden
    if shutil.disk_usage(job.checkpoint.folder).free < size:
        raise OutOfSpace(
            f"Training needs {size / 1e9:.1f} GB on the disk of {job.folder} for a while. Free some space, or give it "
            "less --minutes."
        )
