"""The files that a query and a judged answer pass, as the page on architecture lists them."""

import functools
import importlib
import json
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import ragbench
from ragbench.experiment.stages.answers import GeneratorRequest
from ragbench.records.manifest import QuestionRow
from ragbench.score.judge.base import JudgedItem
from ragbench.types import Collection, Document, Query, Run
from ragbench.types.rows import Mapped
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import FEW_SCORES, QUERIES
from tests.score.judge.scripted import Script

PACKAGE = f"{Path(ragbench.__file__).parent}/"
# Folders of plain types, words and file formats, which the lists leave out.
NOT_LISTED = ("types/", "text/", "data/files/")
# Parts of a function for its reader; Python 3.12 calls most of them no function either.
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
PARAMETERS_WITH_STAR = 4 | 8  # flags of code with `*args` and `**options`


@functools.cache
def declared_fields(cls):
    """Return the names of the slots of a class, and of the fields of a struct or named tuple."""
    names = [*getattr(cls, "__struct_fields__", ()), *getattr(cls, "_fields", ())]
    for base in cls.__mro__:
        slots = getattr(base, "__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return names


def fields_of(value):
    """Return the values of the fields of an object; no property is read."""
    in_slots = [field_of(value, name) for name in declared_fields(type(value))]
    return [*in_slots, *field_of(value, "__dict__", {}).values()]


def field_of(value, name, default=None):
    """Return the value of a field, the default if it is not set; no `__getattr__` runs."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return default


class Walk:
    """Files with a function that receives or returns an object which holds the id of a query.

    An object of the package holds an id if a field of it is the id, or is an object that holds it:
    a query, a request with its query, the item of a judge, a vote on it, a row of a file. A list,
    tuple, set or dictionary is received or returned with all that it contains; a method receives
    its object; a generator returns what it yields.

    Ids without an object are plain values, also in lists and as keys. An object with a list or
    columns of all queries, such as a data set, a plan or a ranking of all queries, holds no id. A
    lazy sequence holds none either: the functions that make and receive its items count.
    """

    def __init__(self, query_ids):
        self.ids, self.files = frozenset(query_ids), set()

    def has_holder(self, value):
        """Return True if a value is an object with an id, or contains one."""
        if isinstance(value, dict):
            return any(map(self.has_holder, [*value, *value.values()]))
        if isinstance(value, (list, tuple, set, frozenset)) and not hasattr(value, "_fields"):
            return any(map(self.has_holder, [*value]))
        return self.holds(value, set())

    def holds(self, value, object_ids):
        """Return True if a field of an object is an id, or is an object that holds one."""
        is_own = type(value).__module__.partition(".")[0] == ragbench.__name__
        if not is_own or isinstance(value, type) or id(value) in object_ids:
            return False
        object_ids.add(id(value))
        for field in fields_of(value):
            if field in self.ids if isinstance(field, str) else self.holds(field, object_ids):
                return True
        return False

    def look(self, frame, event, returned):
        """Note the file of a call or return, as `sys.setprofile` passes it."""
        code = frame.f_code
        # calls of C functions are most of the events
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        file = code.co_filename.removeprefix(PACKAGE)
        if file in self.files or code.co_name in COMPREHENSIONS:
            return
        if event == "call":
            stars = (code.co_flags & PARAMETERS_WITH_STAR).bit_count()
            n_parameters = code.co_argcount + code.co_kwonlyargcount + stars
            names = code.co_varnames[:n_parameters]
            # a generator that goes on may have deleted a parameter
            if self.has_holder([frame.f_locals.get(name) for name in names]):
                self.files.add(file)
        elif self.has_holder(returned):
            self.files.add(file)


@contextmanager
def traced(query_ids):
    """Trace some queries in this thread, and in those that start meanwhile."""
    walk, previous = Walk(query_ids), sys.getprofile()
    threading.setprofile(walk.look)
    sys.setprofile(walk.look)
    try:
        yield walk
    finally:
        sys.setprofile(previous)
        threading.setprofile(None)


def traced_run(config, folder):
    """Return the files that the queries of a config pass in `ragbench run`, sorted by name."""
    file = folder / "config.yaml"
    file.write_text(json.dumps(config))
    with traced(QUERIES) as walk:
        done = run_command("run", file, cwd=folder)
    assert done.returncode == 0, done.stderr
    return sorted(name for name in walk.files if not name.startswith(NOT_LISTED))


@pytest.fixture(scope="module")
def listed_files(repository):
    """Return the files of each list of the page, and the numbers of files in its sentences."""
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## The files of a query")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)
    numbers = map(int, re.findall(r"passes (\d+) files", chapter))
    return [[line.split()[0] for line in block.splitlines()] for block in blocks], [*numbers]


@pytest.fixture
def small(config, moons_run):
    """The config with few systems and scores, after a run that imported what it needs.

    Each call of a function is looked at, and imports make most of the calls.
    """
    importlib.import_module("openai")
    return {**config, "retrievers": {"bm25": {"type": "bm25"}}, "metrics": {**FEW_SCORES}}


@pytest.mark.slow
def test_the_page_lists_the_files_of_a_query(small, tmp_path, listed_files):
    (of_query, _), (number, _) = listed_files

    assert traced_run(small, tmp_path) == sorted(of_query)
    assert len(of_query) == number


@pytest.mark.slow
def test_the_page_lists_the_files_of_a_judged_answer(small, tmp_path, listed_files, monkeypatch):
    (of_query, of_judge), (_, number) = listed_files
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with ChatServer(Script()) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        judge["rubrics"] = ["faithfulness", "answer_relevancy"]
        small["metrics"]["judge"] = judge
        files = traced_run(small, tmp_path)

    assert files == sorted(of_query + of_judge)
    assert len(files) == number


QUERY = Query("q1", "Which moon has volcanoes?")
HOLDERS = {
    "a query": QUERY,
    "a request with its query": GeneratorRequest(QUERY, [], 0),
    "the item of a judge": JudgedItem(query_id="q1"),
    "a row of a file": QuestionRow(query_id="q1", question="?"),
    "a list of queries": [QUERY],
    "a list in a pair": ([QUERY], "a note"),
    "rows by id": {"q1": QuestionRow(query_id="q1", question="?")},
}
PLAIN_VALUES = {
    "an id": "q1",
    "ids": ["q1"],
    "texts by id": {"q1": "Io"},
    "another query": Query("q2", "Why?"),
    "a document": Document("d1", "Io"),
    "a data set": Collection([QUERY]),
    "a run": Run.from_dict({"q1": {"d1": 1.0}}),
    "a lazy sequence": Mapped(lambda row: QUERY, [0]),
}


@pytest.mark.parametrize("value", HOLDERS.values(), ids=HOLDERS)
def test_objects_with_the_id_count(value):
    assert Walk(["q1"]).has_holder(value)


@pytest.mark.parametrize("value", PLAIN_VALUES.values(), ids=PLAIN_VALUES)
def test_plain_values_and_data_of_all_queries_hold_no_id(value):
    assert not Walk(["q1"]).has_holder(value)
