"""Command `ragbench questions CORPUS`: make questions with checked quotes from documents."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from ragbench import llm
from ragbench.cli import output
from ragbench.config.schema import BudgetLimits
from ragbench.data.files.collection import read_corpus
from ragbench.data.files.lines import text_lines
from ragbench.errors import EXIT_INCOMPLETE, EXIT_OK, DataError
from ragbench.files import cache_folder, check_writable, naming_unwritable, write_file
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.llm.server import Server
from ragbench.questions import base, review
from ragbench.questions.known_item import KNOWN_ITEM, WARNING, known_items
from ragbench.questions.make import QuestionMaker
from ragbench.questions.prompts import QuestionModelOptions, QuestionPrompts, prompt_version
from ragbench.registry import declared_options
from ragbench.registry.options import check_values
from ragbench.report.page.review import write_review_page
from ragbench.report.text import counted
from ragbench.store.database import REPLIES_FILE
from ragbench.types import Document
from ragbench.types.display import shorten_line

_NO_MODEL = "none"
_MODEL_OPTIONS = ("base_url", "options", "budget", "like", "language", "plan", "retry_failed")
_WITHOUT_MODEL = "--model none takes -n, -o, --rejected and --seed alone"
_QUESTION_OPTIONS = ("n", "kinds", "model", "rejected", "seed", *_MODEL_OPTIONS)
_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE
_LONGEST_REASON = 80  # characters
_MOST_EXAMPLES = 8  # of the style of users, in each prompt


@output.command(
    name="questions",
    examples=(
        "ragbench questions docs/ -n 50 --model gpt-4o-mini -o questions.csv",
        "ragbench questions docs/ -n 50 --model none -o questions.csv",
    ),
)
@click.argument("corpus", type=click.Path(path_type=Path), required=False)
@output.number_option("-n", help="Number of questions to keep, all of kind fact.")
@click.option("--kinds", metavar="KIND:N,...", help="In place of -n: fact:50,unanswerable:10.")
@click.option("--model", metavar="NAME", help="The model; none: work without one.")
@click.option("--base-url", metavar="URL", help="Server of the model; default: OpenAI's.")
@output.several(
    "--option",
    "options",
    metavar="KEY=VALUE",
    help="Another option of the model, as of the generator `openai`, such as "
    "concurrency=4, api_key_env=MY_KEY or max_tokens=4096; repeatable.",
)
@output.several(
    "--budget", metavar="KEY=VALUE", help="Limit: usd=, tokens= or minutes=; repeatable."
)
@output.path_option(
    "--like", help="Questions of real users, a line each; the first 8 set the style."
)
@click.option("--language", metavar="NAME", help="Language of the questions; default: the text's.")
@output.seed_option(help="Seed of the draw of passages; default 0.")
@output.flag("--plan", help="Print the most calls, tokens and cost; send nothing.")
@output.flag(
    "--retry-failed",
    help="If too few are kept, ask once more for candidates without a usable reply.",
)
@output.file_option("-o", "--output", "target", help="CSV file of the kept questions.")
@output.file_option("--rejected", help="CSV file of the other candidates, with their reasons.")
@output.path_option(
    "--review", help="Write a page (-o FILE.html) on which a person reviews these questions."
)
@output.path_option(
    "--reviewed",
    help="Read the table that the page saved, print how far people agree with the "
    "checks, and write it to -o; with CORPUS, quotes are looked up.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    corpus: Path | None,
    n: int | None,
    kinds: str | None,
    target: Path | None,
    rejected: Path | None,
    **choices: Any,
) -> None:
    """Make questions about the documents of CORPUS, check them, and write those that pass.

    A model reads a passage and writes a question, a short answer and a quote. A question is kept
    if: the quote stands in the document word by word; the model answers the question from the
    passage, and not without it; it is no near duplicate of a kept one; it says what it is about;
    and it does not copy its passage. Passages are spread over the documents. At most 4 candidates
    are made for each question, with at most 3 calls each. Replies are stored: the same command
    resumes, and a finished one sends nothing. If a budget ends the command, the exit code is 3.

    --model none writes queries of titles and rare terms, which favour word matching.

    --review qa.csv -o review.html makes a page without a server: keys keep, edit, drop and comment
    each question beside its quote in its passage. --reviewed FILE -o qa.csv reads the saved table.
    """
    if choices["review"] or choices["reviewed"]:
        _review(ctx, corpus, target, choices["review"], choices["reviewed"])
        return
    plan, seed, is_model = choices["plan"], choices["seed"] or 0, choices["model"] != _NO_MODEL
    if corpus is None:
        raise click.UsageError("Missing argument 'CORPUS'.")
    output.refuse(
        (choices["model"] is None, "Missing option '--model'."),
        ((n is None) == (kinds is None), "pass -n N or --kinds KIND:N,..., one of them"),
        (target is None and not plan, "pass -o FILE, the file of the questions"),
        (target is not None and target == rejected, "-o and --rejected are the same file"),
        (plan and choices["retry_failed"], "--plan sends nothing: pass it without --retry-failed"),
        (not is_model and (kinds or any(map(choices.get, _MODEL_OPTIONS))), _WITHOUT_MODEL),
    )
    pairs = kinds.replace(":", "=").split(",") if kinds else [f"fact={n}"]
    counts = _parse_values("--kinds", base.QuestionCounts, pairs)
    _check_rejected(rejected)
    documents = read_corpus(corpus)
    output.write_notes(documents.notes)
    if is_model:
        maker, options, limits = _question_maker(documents.documents, choices, seed)
        if plan:
            _print_plan(maker, counts, options)
            return
        _check_writable(target, rejected)
        with output.resumable(), llm.Replies(cache_folder() / REPLIES_FILE) as replies:
            model = _QuestionModel(options, replies)
            # before the first call, so that no call is paid for a file that is refused
            stored = _check_table(partial(model.make_stored, maker, counts), target)
            candidates = model.ask(
                maker, counts, llm.Budget(**limits), retry_failed=choices["retry_failed"]
            )
            candidates = _keep_questions(stored.questions, candidates, counts)
    else:
        output.echo(f"warning: {WARNING}", err=True)
        candidates = known_items(documents.documents, n or 0, seed=seed)
        stored = _check_table(lambda: candidates, target)
    if target:
        _write_tables(candidates, target, rejected, stored.content)
        _print_results(candidates, sum(counts.values()), corpus, target)
    ctx.exit(EXIT_INCOMPLETE if base.is_over_budget(candidates) else EXIT_OK)


def _print_results(
    candidates: Sequence[base.QuestionCandidate], n_wanted: int, corpus: Path, target: Path
) -> None:
    """Print what was kept, and the next command; raise a DataError if nothing was."""
    output.echo(base.summary_line(candidates))
    n_kept = len(base.passing(candidates))
    if not n_kept and base.is_over_budget(candidates):
        return
    if not n_kept:
        problem, allowed = _nothing_kept(candidates)
        raise DataError(problem, file=corpus, allowed=allowed)
    output.echo(f"wrote {target}")
    if unusable := base.without_reply(candidates):
        count = counted(len(unusable), "candidates")
        note = f"{count} without a usable reply, the first: {_first_reason(unusable)}"
        # a command that has enough questions asks for no further one
        output.write_notes([f"{note}; {_advice(unusable)}" if n_kept < n_wanted else note])
    if n_kept < n_wanted:
        reason = "--rejected FILE has the reason of each other candidate"
        if candidates[0].kind == KNOWN_ITEM:
            passages = counted(len(candidates), "passages")
            reason = f"the corpus has {passages}, and each gives one candidate: add documents"
        output.echo(f"warning: {n_kept} of {n_wanted} questions were kept; {reason}", err=True)
    paths = shlex.quote(str(target)), shlex.quote(str(corpus))
    output.echo("next: ragbench init --from {} --corpus {}".format(*paths), err=True)


def _question_maker(
    documents: Sequence[Document], choices: Mapping[str, Any], seed: int
) -> tuple[QuestionMaker, QuestionModelOptions, dict[str, Any]]:
    """Return the maker of the questions, the options of its model, and the limits of `--budget`."""
    address, model = choices["base_url"], choices["model"]
    values = _parse_values("--option", QuestionModelOptions, choices["options"])
    limits = _parse_values("--budget", BudgetLimits, choices["budget"])
    is_twice = values.keys() & {"model", "base_url"}
    output.refuse((is_twice, "pass --model and --base-url in place of their --option"))
    options = QuestionModelOptions(**values, base_url=address, model=model)
    lines = [] if choices["like"] is None else text_lines(choices["like"])
    style = [text.strip() for _, text in lines if text.strip()][:_MOST_EXAMPLES]
    prompts = QuestionPrompts(options, choices["language"], style)
    return QuestionMaker(documents, prompts, seed=seed), options, limits


def _print_plan(
    maker: QuestionMaker, counts: Mapping[str, int], options: QuestionModelOptions
) -> None:
    """Print the most calls, tokens and cost that questions of all kinds can take."""
    prices = options.load_prices()
    bound = llm.Estimate()
    for kind, number in counts.items():
        bound += maker.bound(kind, number, prices)
    (_, calls), (_, tokens), usd = astuple(bound)
    price = "of unknown price" if usd is None else f"{usd[1]:.2g} USD"
    output.echo(f"at most {calls:,.0f} calls, {tokens:,.0f} tokens, {price}")
    if usd is None:
        output.echo(
            f"{options.model} has no known price: write {prices.entry_to_write(options.model)}"
        )
    output.echo("an unreadable reply is asked for once more, beyond these calls")
    output.echo(f"nothing is sent; version of the prompts: {prompt_version()}")


def _nothing_kept(candidates: Sequence[base.QuestionCandidate]) -> tuple[str, str]:
    """Return the problem of candidates of which none was kept, and what to do."""
    unusable = base.without_reply(candidates)
    if not unusable or 2 * len(unusable) < len(candidates):
        allowed = "documents with facts; --rejected FILE has the reason of each candidate"
        return "no question was kept", allowed
    count = f"{len(unusable)} of {counted(len(candidates), 'candidates')}"
    problem = f"{count} got no usable reply, the first: {_first_reason(unusable)}"
    return problem, f"replies that can be used; {_advice(unusable)}"


def _first_reason(unusable: Sequence[base.QuestionCandidate]) -> str:
    """Return why the first candidate got no usable reply, on a part of a line."""
    return shorten_line(unusable[0].reason, _LONGEST_REASON)


def _advice(unusable: Sequence[base.QuestionCandidate]) -> str:
    """Return the command that asks again for candidates without a usable reply, as text."""
    is_kept = any(candidate.cause and candidate.cause.is_kept for candidate in unusable)
    return "--retry-failed asks again" if is_kept else "the same command asks again"


def _check_writable(*paths: Path | None) -> None:
    """Raise a DataError if a file cannot be written into its folder."""
    for path in filter(None, paths):
        with naming_unwritable(path):
            check_writable(path.parent)


def _check_rejected(rejected: Path | None) -> None:
    """Raise a DataError if a file exists that is no table of rejected candidates."""
    header = base.to_table((), reasons=True).encode()
    content = rejected.read_bytes() if rejected is not None and rejected.exists() else b""
    if content and not content.startswith(header):
        allowed = "another file for --rejected, or the one of an earlier command"
        raise DataError("exists with other content", file=rejected, allowed=allowed)


class _StoredTable(NamedTuple):
    """Content of an existing file of questions, and its questions in their order."""

    content: bytes = b""
    questions: Sequence[base.QuestionCandidate] = ()


def _check_table(
    make: Callable[[], list[base.QuestionCandidate]], target: Path | None
) -> _StoredTable:
    """Return the table in `target`, empty without one; raise a DataError if `make` lacks a row."""
    if target is None or not target.exists():
        return _StoredTable()
    candidates = make()
    table = base.to_table(questions := base.passing(candidates)).encode()
    stored = target.read_bytes()
    by_place = {}
    for question in questions:
        by_place[stored.find(f"\n{question.row()[0]},".encode())] = question
    by_place.pop(-1, None)
    rows = [by_place[place] for place in sorted(by_place)]
    if not stored or base.to_table(rows).encode() == stored:
        return _StoredTable(stored, rows)
    if questions and stored.startswith(table) and not base.is_over_budget(candidates):
        problem = f"begins with {counted(len(questions), 'questions')} of this run, and has more"
        allowed = "another file for fewer questions; or keep this one, and mark rows with keep = no"
        raise DataError(problem, file=target, allowed=allowed)
    problem = "exists with other content: your edits, or questions of another run"
    allowed = "another file; or move it away: replies are stored, and none is paid again"
    raise DataError(problem, file=target, allowed=allowed)


def _keep_questions(
    questions: Sequence[base.QuestionCandidate],
    candidates: Sequence[base.QuestionCandidate],
    counts: Mapping[str, int],
) -> list[base.QuestionCandidate]:
    """Return the questions of a file, then the other candidates, with at most `counts` kept."""
    ids = {question.row()[0] for question in questions}
    n_kept = Counter(question.kind for question in questions)
    merged = [*questions]
    for candidate in candidates:
        if candidate.failure:
            merged.append(candidate)
        elif candidate.row()[0] not in ids and n_kept[candidate.kind] < counts[candidate.kind]:
            n_kept[candidate.kind] += 1
            merged.append(candidate)
    return merged


def _write_tables(
    candidates: Sequence[base.QuestionCandidate],
    target: Path,
    rejected: Path | None,
    stored: bytes,
) -> None:
    """Write kept questions and others; raise a DataError if `target` no longer is as `stored`."""
    if (target.read_bytes() if target.exists() else b"") != stored:
        problem = "was changed while the questions were made"
        allowed = "another file; replies are stored, and none is paid again"
        raise DataError(problem, file=target, allowed=allowed)
    if questions := base.passing(candidates):
        write_file(target, base.to_table(questions))
    if rejected:
        failures = []
        for candidate in candidates:
            if candidate.failure:
                failures.append(candidate)
        write_file(rejected, base.to_table(failures, reasons=True))


def _review(
    ctx: click.Context,
    corpus: Path | None,
    target: Path | None,
    questions: Path | None,
    reviewed: Path | None,
) -> None:
    """Write the review page of `questions`, or read back the table `reviewed`."""
    is_making = any(ctx.get_parameter_source(name) is _COMMAND_LINE for name in _QUESTION_OPTIONS)
    both = questions and reviewed
    output.refuse(
        (is_making or both, "--review and --reviewed take CORPUS and -o alone, one of them"),
        (target is None, "pass -o FILE: review.html of --review, qa.csv of --reviewed"),
        (questions and corpus is None, "--review needs CORPUS, the documents"),
        (questions and target and target.suffix != ".html", "--review needs -o FILE.html"),
    )
    if questions and corpus and target:
        _write_review_page(questions, corpus, target)
    elif reviewed and target:
        _read_back(reviewed, corpus, target)


def _write_review_page(questions: Path, corpus: Path, target: Path) -> None:
    """Write the review page of a table of questions, and print how to go on."""
    entries = review.read_questions(questions)
    documents = read_corpus(corpus)
    output.write_notes(documents.notes)
    with naming_unwritable(target):
        write_review_page(target, entries, documents.documents)
    output.echo(f"wrote {target}: {counted(len(entries), 'questions')} to review in a browser")


def _read_back(reviewed: Path, corpus: Path | None, target: Path) -> None:
    """Write a reviewed table as the table of questions, and print the agreement with the checks."""
    entries = review.read_questions(reviewed)
    if target.exists() and not review.is_update(entries, review.read_questions(target)):
        problem = "has other questions, or other cells in questions that are not reviewed"
        raise DataError(problem, file=target, allowed="another file")
    documents = None if corpus is None else read_corpus(corpus).documents
    checked = review.check_quotes(entries, documents)
    write_file(target, review.to_reviewed_table(checked))
    for line in review.agreement_lines(entries):
        output.echo(line)
    n_kept = sum(map(review.is_kept, checked))
    output.echo(f"wrote {target}: {n_kept} of {counted(len(checked), 'questions')} to keep")
    if documents is None:
        output.write_notes(["quotes were not looked up; pass the CORPUS to do so"])


def _parse_values(option: str, declares: type, pairs: Sequence[str]) -> dict[str, Any]:
    """Return key -> value of pairs such as `usd=0.5`, with values as YAML reads them."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.strip().partition("=")
        is_valid = bool(sign) and key not in values
        try:
            values[key] = load_yaml(text, typed=True)
        except YamlError:
            is_valid = False
        if not is_valid:
            # without the value, which may hold a secret
            problem = f"'{key}'; allowed: KEY=VALUE, each key once"
            raise click.BadParameter(problem, param_hint=option)
    check_values(option, declared_options(declares), values)
    return values


class _QuestionModel:
    """Model that writes and answers questions, with its store of replies."""

    def __init__(self, options: QuestionModelOptions, replies: llm.Replies) -> None:
        self._options, self._replies = options, replies
        self._server, self._prices = Server.from_options(options), options.load_prices()

    def make_stored(
        self, maker: QuestionMaker, counts: Mapping[str, int]
    ) -> list[base.QuestionCandidate]:
        """Return the candidates of all kinds from stored replies alone; nothing is sent."""
        candidates: list[base.QuestionCandidate] = []
        with self._open(llm.Budget(tokens=0)) as engine:
            for kind, n in counts.items():
                candidates += maker.make(engine, kind, n, candidates)
        return candidates

    def ask(
        self,
        maker: QuestionMaker,
        counts: Mapping[str, int],
        budget: llm.Budget,
        *,
        retry_failed: bool,
    ) -> list[base.QuestionCandidate]:
        """Return the candidates of all kinds; a note on stderr has calls and cost."""
        candidates: list[base.QuestionCandidate] = []
        with (
            self._open(budget) as engine,
            output.stage("make questions", None, "candidates") as stage,
        ):
            for kind, n in counts.items():
                candidates += maker.make(
                    engine, kind, n, candidates, stage.advance, retry_failed=retry_failed
                )
            output.write_notes([output.spent(engine.totals, tokens=True)])
        return candidates

    def _open(self, budget: llm.Budget) -> llm.ChatEngine:
        """Return an engine within a budget, which the caller closes."""
        return llm.ChatEngine(
            self._server.connect(self._replies),
            limits=self._options,
            replies=self._replies,
            prices=self._prices,
            budget=budget,
        )
