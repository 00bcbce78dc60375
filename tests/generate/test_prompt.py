"""Prompts in files: what is read, what is refused, and with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.generate.chat import estimate_tokens, fit, load_prompt
from ragbench.types import Document


def test_a_template_of_ones_own(tmp_path):
    file = tmp_path / "mine.j2"
    file.write_text("{% for p in passages %}<{{ p.id }}>{% endfor %} {{ question }}")
    prompt = load_prompt(str(file), "Be kind.")

    assert [m.content for m in prompt.messages("Why {{ x }}?", [Document("a"), Document("b")])] == [
        "Be kind.",
        "<a><b> Why {{ x }}?",
    ]


def test_the_hash_moves_with_every_word(tmp_path):
    file = tmp_path / "mine.yaml"
    hashes = set()
    for system, user in [
        ("a", "{{ question }}"),
        ("a", "{{ question }}!"),
        ("b", "{{ question }}"),
    ]:
        file.write_text(f"system: {system}\nuser: '{user}'\n")
        hashes.add(load_prompt(str(file)).hash)

    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("qaa", None, OptionError, "openai: prompt: found 'qaa', allowed: qa, or .*mean 'qa'"),
        ("a.yaml", "user: [", DataError, r"a\.yaml:\d: no YAML"),
        ("a.yaml", "system: x", DataError, "no prompt: found {'system': 'x'}"),
        ("a.yaml", "user: '{{ question }}'\nsytem: x", DataError, "'sytem': 'x'}"),
        ("a.yaml", "user: '{{ question }}'\nsystem: 3", DataError, "'system': 3}"),
        ("a.j2", "x\n{{ question", DataError, r"a\.j2:2: unexpected end"),
        ("a.j2", "{{ qestion }}", DataError, "'qestion' is undefined; allowed: {{ question }}"),
        ("a.j2", "{{ question }} {{ context }}", DataError, "'context' is .*allowed: .* passages"),
        ("a.j2", "{{ question }} {{ passages[0].txt }}", DataError, "'txt'; allowed: .*, text"),
        ("a.j2", "{{ passages[0].text }}", DataError, "does not ask the question"),
        ("a.j2", "{{ question.__class__.mro() }}", DataError, "unsafe"),
        ("a.j2", "{{ question }}{{ 1 / 0 }}", DataError, r"a\.j2: ZeroDivisionError: division"),
        ("a.j2", "{{ question }}{{ 'a' + 1 }}", DataError, "TypeError: .*concatenate"),
        ("a.j2", "{{ question }}{% include '/etc/hosts' %}", DataError, "TypeError: no loader"),
        ("a.j2", "{{ question }}{{ 'x' * 2**60 }}", DataError, "MemoryError"),
        ("a.j2", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", DataError, "RecursionError"),
    ],
)
def test_anything_else_is_refused(tmp_path, monkeypatch, name, content, error, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)

    with pytest.raises(error, match=message):
        load_prompt(name, None, "openai")


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("雪", 1), ("ab雪雪", 3)]
)
def test_tokens_by_hand(text, tokens):
    assert estimate_tokens(text) == tokens


passages = st.lists(st.text("ab é\n", max_size=20), max_size=6).map(
    lambda texts: [Document(str(n), text) for n, text in enumerate(texts)]
)


@given(passages, st.integers(0, 30))
def test_what_is_kept_fits_and_is_the_best_that_does(given, budget):
    kept = fit(given, budget)

    assert sum(estimate_tokens(document.full_text) for document in kept) <= budget
    assert kept[:-1] == given[: len(kept)][:-1], "whole ones, in order"
    if kept:
        assert given[len(kept) - 1].text.startswith(kept[-1].text)
    if kept != given:
        following = given[len(kept)] if kept == given[: len(kept)] else given[len(kept) - 1]
        spent = sum(estimate_tokens(document.text) for document in kept)
        assert spent + estimate_tokens(following.text) > budget
