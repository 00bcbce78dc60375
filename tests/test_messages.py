"""Golden messages: their form, their masks, and no section without its test."""

import pytest

from tests.messages import (
    MESSAGES,
    REPOSITORY,
    fits,
    function_of,
    golden_file,
    lines_with,
    mask,
    read_messages,
    render,
    write_message,
)

TESTS = "def test_one(x):\n    pass\n\n\ndef test_two():\n    pass\n"


@pytest.mark.parametrize("text", ["", "a.csv:2: no id", "two\n\n  lines ", "a\n## no section"])
def test_a_message_is_read_as_it_was_written(tmp_path, text):
    path = tmp_path / "new" / "messages.txt"

    write_message(path, "test_one[a b]", "to be replaced", TESTS)
    write_message(path, "test_two", text, TESTS)
    write_message(path, "test_one[a b]", text, TESTS)

    assert read_messages(path) == {"test_one[a b]": text, "test_two": text}


def test_writing_keeps_a_section_that_still_fits(tmp_path):
    path = tmp_path / "messages.txt"
    write_message(path, "test_one", "a.csv: ... lines in ...", TESTS)

    write_message(path, "test_one", "a.csv: 12 lines in 3 s", TESTS)
    assert read_messages(path) == {"test_one": "a.csv: ... lines in ..."}

    write_message(path, "test_one", "a.csv: 12 rows in 3 s", TESTS)
    assert read_messages(path) == {"test_one": "a.csv: 12 rows in 3 s"}


@pytest.mark.parametrize(
    ("text", "section", "expected"),
    [
        ("a (b)", "a (b)", True),
        ("a (b)", "a (c)", False),
        ("a\nb c", "a...c", True),
        ("a\nb c", "a...d", False),
        ("ab", "a", False),
    ],
)
def test_three_dots_stand_for_any_text(text, section, expected):
    assert fits(text, section) == expected


def test_writing_drops_the_sections_of_removed_functions(tmp_path):
    path = tmp_path / "messages.txt"
    write_message(path, "test_one", "first", TESTS)

    write_message(path, "test_two", "second", TESTS.replace("test_one", "test_three"))

    assert read_messages(path) == {"test_two": "second"}


def test_masks_what_differs_between_machines_and_installations(tmp_path):
    text = f"{tmp_path}/a.csv: in {REPOSITORY}; allowed: a, b-c, d, e, f, g\n"
    text = f"{text}http://127.0.0.1:45599/v1 of <f at 0x7f2374dda160>, 20261129-055609-34ac\n"

    masked = mask(text, tmp_path.parent)

    assert masked.splitlines() == [
        "TMP/a.csv: in REPOSITORY; allowed: NAMES",
        "http://127.0.0.1:PORT/v1 of <f at ADDRESS>, RUN",
    ]


def test_sections_of_one_test_stand_in_the_order_of_its_calls(tmp_path):
    path = tmp_path / "messages.txt"
    names = ["test_one", "test_one 2", "test_one 10", "test_one[a b]"]
    for name in reversed(names):
        write_message(path, name, "text", TESTS)

    assert [*read_messages(path)] == names


def test_renders_errors_texts_and_several_of_them():
    assert render([ValueError("bad grade"), "no id"]) == "bad grade\nno id"


def test_each_section_belongs_to_a_test_that_there_is(repository):
    sections_without_test = []
    for path in sorted(MESSAGES.rglob("*.txt")):
        module = (repository / "tests" / path.relative_to(MESSAGES)).with_suffix(".py")
        assert golden_file(module) == path
        source = module.read_text(encoding="utf-8")
        for section in read_messages(path):
            if f"def {function_of(section)}(" not in source:
                sections_without_test.append(f"{path.name}: {section}")

    assert sections_without_test == []


def test_a_message_begins_with_its_place(assert_message):
    assert_message(ValueError("a.csv:2: no id"), "a.csv:2")
    with pytest.raises(AssertionError):
        assert_message("a.csv:22: no id", "a.csv:2")


def test_a_message_without_its_section_fails(request, assert_message):
    if request.config.getoption("--update-golden"):
        pytest.skip("the section would be written")
    with pytest.raises(AssertionError, match="make golden"):
        assert_message("a.csv:2: no id")


def test_a_message_that_differs_from_its_section_fails(request, assert_message):
    differs = not request.config.getoption("--update-golden")
    assert_message("as in the section")
    # the second call compares with a section of the same words
    if differs:
        with pytest.raises(AssertionError):
            assert_message("other words")
    else:
        assert_message("as in the section")


def test_lines_with_a_phrase_stand_for_a_long_text():
    assert lines_with("a 1\nb 2\na 3", "a ", "3") == ["a 1", "a 3"]
    assert lines_with(["a 1", ValueError("b 2\nc 3")], "c") == ["c 3"]
    assert lines_with("a", "b") == []
