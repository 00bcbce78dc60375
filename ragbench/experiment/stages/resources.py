"""Resources of the stages: components with their limits, models, workers and words of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench import __version__
from ragbench.config.components import varies
from ragbench.config.schema import PYTHON_TIMEOUT
from ragbench.executors.base import Executor
from ragbench.experiment.calls import Calls
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.records import judge_totals
from ragbench.experiment.stages import keys
from ragbench.llm import Budget, CountedRequests, Replies
from ragbench.records.codec import from_line, to_line
from ragbench.records.manifest import PromptForm, form_id
from ragbench.secrets import redactor
from ragbench.signature import fingerprint
from ragbench.store.items import StageStore

# Kind of the stored verdicts, beside which the words of their prompts are stored.
VERDICTS = "judge"
# Version of the stored verdicts, part of their keys.
VERDICT_VERSION = 3


class PromptWords:
    """System and user words of the prompts that judges are sent, which many verdicts share.

    Attributes:
        words: Words of the prompts of this run, by id.
    """

    def __init__(self, plan: Plan, store: StageStore) -> None:
        """Read words from `store`, and write new ones there; a replay of judges writes none."""
        key = fingerprint([f"{__version__} {VERDICT_VERSION}", "prompts"], keys.KEY_DIGITS)
        self._items = store.items(VERDICTS, "words of prompts", key)
        self._clean = redactor(plan.config.secrets)
        self._stores = not plan.choices.judge_replay
        self.words = dict[str, tuple[str, str]]()

    def find(self, prompt_id: str) -> tuple[str, str] | None:
        """Return the words of a prompt; None if they are no longer stored."""
        if prompt_id not in self.words:
            line = self._items.get(prompt_id)
            if line is None:
                return None
            form = from_line(PromptForm, line)
            self.words[prompt_id] = (form.system, form.user)
        return self.words[prompt_id]

    def add(self, system: str, user: str) -> str:
        """Store the words of a prompt, and return their id."""
        system, user = self._clean(system), self._clean(user)
        prompt_id = form_id(system, user)
        if prompt_id not in self.words:
            if self._stores and prompt_id not in self._items:
                form = PromptForm(id=prompt_id, system=system, user=user)
                self._items.put(prompt_id, to_line(form).encode())
            self.words[prompt_id] = (system, user)
        return prompt_id

    def update(self, words: Mapping[str, tuple[str, str]]) -> None:
        """Add words by id, which are stored nowhere."""
        self.words.update(words)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources that stages use to make items; they hold no item.

    Attributes:
        plan: Plan of the run.
        run_token: Token of the run: part of the keys of components whose code or service may change
            unseen, so that no other run reads their results.
        prompts: Words of the prompts that judges are sent.
        budget: Money, tokens and minutes that the run may take; by default without limits.
        replies: Stored replies of models; None if the run asks no model.
        executor: Workers, which compute what needs no store and no server; None without any.
        ready: Names of the retrievers that are indexed.
        counted: Requests that a plan has counted, so that equal ones count once.
        reached: Component -> whether the calls of this run reached its server, as in `Calls`.
    """

    plan: Plan
    run_token: str
    prompts: PromptWords
    budget: Budget = field(default_factory=Budget)
    replies: Replies | None = None
    executor: Executor | None = None
    ready: set[str] = field(default_factory=set)
    counted: CountedRequests = field(default_factory=CountedRequests)
    reached: dict[str, set[bool]] = field(default_factory=dict)

    def component_key(self, noun: Noun, name: str, **inputs: Any) -> str:
        """Return the key of the results of a component for `inputs`, which are JSON-ready.

        It has 32 hexadecimal digits. An unknown name counts as a live object.
        """
        component = self.plan.component(noun, name)
        if component is None:  # a live object has no entry: its name and the run identify it
            inputs["name"] = name
        if self.plan.choices.look and varies(component):
            inputs["look"] = self.plan.choices.look
        secrets = self.plan.config.secrets
        return keys.component_key(component, self.run_token, secrets, **inputs)

    def calls(self, noun: Noun, name: str) -> Calls:
        """Return the options for the calls of a component; no call starts once time is up.

        A live object, which has no entry, is called once at a time, without retries, and gets the
        time limit of Python components.
        """
        component, owner = self.plan.component(noun, name), f"{noun} '{name}'"
        reached = self.reached.setdefault(owner, set())
        if component is None:
            return Calls(owner, PYTHON_TIMEOUT, refused=self._refused, reached=reached)
        limits = component.timeout, component.concurrency, component.retries
        return Calls(owner, *limits, refused=self._refused, reached=reached)

    def unreachable(self) -> tuple[str, ...]:
        """Return the components whose server served no request of this run, judges last.

        They are named as in messages: `generator 'gpt'`. Components that sent no request, such as
        those whose items are all stored, are left out.
        """
        totals = {}
        for name, judge in self.plan.all_judges.items():
            totals[f"judge '{name}'"] = judge_totals(judge)
        owners = []
        for owner, reached in self.reached.items():
            if reached == {False}:
                owners.append(owner)
        for owner, calls in totals.items():
            if 0 < calls.unreachable == calls.failed and not calls.calls:
                owners.append(owner)
        return tuple(owners)

    def _refused(self) -> str | None:
        if not self.budget.time_is_up:
            return None
        return f"not asked: the budget's {self.budget.minutes:g} minutes are over"
