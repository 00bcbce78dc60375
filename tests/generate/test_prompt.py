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
    ("name", "content", "error", "place"),
    [
        ("qaa", None, OptionError, "openai: prompt"),
        ("a.yaml", "user: [", DataError, "a.yaml:2"),
        ("a.yaml", "system: x", DataError, "a.yaml"),  # misspelt
        ("a.yaml", "user: '{{ question }}'\nsytem: x", DataError, "a.yaml"),
        ("a.yaml", "user: '{{ question }}'\nsystem: 3", DataError, "a.yaml"),
        ("a.j2", "x\n{{ question", DataError, ""),
        ("a.j2", "{{ qestion }}", DataError, "a.j2"),  # misspelt
        ("a.j2", "{{ question }} {{ context }}", DataError, "a.j2"),
        ("a.j2", "{{ question }} {{ passages[0].txt }}", DataError, "a.j2"),
        ("a.j2", "{{ passages[0].text }}", DataError, "a.j2"),  # the question is missing
        ("a.j2", "{{ question.__class__.mro() }}", DataError, "a.j2"),  # a way out of the sandbox
        # also errors of a template name it
        ("a.j2", "{{ question }}{{ 1 / 0 }}", DataError, "a.j2: ZeroDivisionError"),
        ("a.j2", "{{ question }}{{ 'a' + 1 }}", DataError, "a.j2: TypeError"),
        # a template reads no other file
        ("a.j2", "{{ question }}{% include '/etc/hosts' %}", DataError, "a.j2: TypeError"),
        # a template may ask for any memory
        ("a.j2", "{{ question }}{{ 'x' * 2**60 }}", DataError, "a.j2"),
        # a template may call itself for ever
        (
            "a.j2",
            "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
            DataError,
            "a.j2: RecursionError",
        ),
    ],
)
def test_anything_else_is_refused(
    tmp_path, monkeypatch, name, content, error, place, assert_message
):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)

    with pytest.raises(error) as caught:
        load_prompt(name, None, "openai")
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("雪", 1), ("ab雪雪", 3)]
)
def test_tokens_by_hand(text, tokens):
    assert estimate_tokens(text) == tokens


passages = st.lists(st.text("ab é\n", max_size=20), max_size=6).map(
    lambda texts: [Document(str(n), text) for n, text in enumerate(texts)]
)


@given(passages, st.integers(0, 30))
def test_what_is_kept_fits_and_is_the_best_that_does(all_passages, budget):
    fitting = fit(all_passages, budget)

    assert sum(estimate_tokens(document.full_text) for document in fitting) <= budget
    assert fitting[:-1] == all_passages[: len(fitting)][:-1], "whole ones, in order"
    if fitting:
        assert all_passages[len(fitting) - 1].text.startswith(fitting[-1].text)
    if fitting != all_passages:
        following = (
            all_passages[len(fitting)]
            if fitting == all_passages[: len(fitting)]
            else all_passages[len(fitting) - 1]
        )
        spent = sum(estimate_tokens(document.text) for document in fitting)
        assert spent + estimate_tokens(following.text) > budget
