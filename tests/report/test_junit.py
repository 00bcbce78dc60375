"""`junit.xml` by the rules of the schema that Jenkins, GitLab and GitHub's readers share."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ragbench.records.gate import WorseQuery
from ragbench.records.summary import Summary
from ragbench.report import ci, junit
from tests.messages import lines_with
from tests.report.pages import read, render_html, render_junit, render_markdown
from tests.report.strategies import HOSTILE

# junit-10.xsd of the Jenkins xUnit plug-in, as rules: allowed attributes, required ones, children
RULES = {
    "testsuites": (
        {"name", "time", "tests", "failures", "disabled", "errors"}, set(), {"testsuite"}
    ),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "disabled", "skipped", "timestamp",
         "hostname", "id", "package"},
        {"name", "tests"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": (
        {"name", "assertions", "time", "classname", "status"},
        {"name"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}  # fmt: skip


def check(element):
    allowed, required, children = RULES[element.tag]
    assert required <= set(element.attrib) <= allowed, element.tag
    assert {child.tag for child in element} <= children
    for child in element:
        check(child)


def gate(verdict, **facts):
    return {"gate": "map >= 0.2", "system": "bm25", "verdict": verdict, "why": "0.1", **facts}


def suite(*gates, name="mine"):
    root = ElementTree.fromstring(render_junit({"name": name, "run_id": "r1", "gates": gates}))
    check(root)
    [element] = root.findall("testsuite")
    return element


def test_one_case_per_gate_and_system():
    element = suite(
        gate("pass"), gate("fail"), gate("undecided"), gate("undecided", refused=True, system=None)
    )

    cases = element.findall("testcase")
    outcomes = [[child.tag for child in case] for case in cases]
    assert outcomes == [["system-out"], ["failure"], ["skipped"], ["error"]]
    counts = {key: element.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    assert cases[0].get("classname") == "ragbench.mine.bm25"
    assert cases[1].find("failure").get("message") == "map >= 0.2: 0.1"


def test_a_run_without_gates_is_an_empty_suite():
    assert suite().get("tests") == "0"


TEXTS = st.sampled_from(HOSTILE)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=3), TEXTS)
def test_foreign_text_breaks_nothing(rows, name):
    gates = [gate("fail", gate=a, system=b, why=c) for a, b, c in rows]

    assert len(suite(*gates, name=name).findall("testcase")) == len(gates)


LOST = gate(
    "fail",
    gate="ndcg@10 drop <= 0.02 against main.json",
    why="-0.125 [-0.2, -0.05] over 78 queries",
    means=[0.594, 0.469],
    worst_queries=[
        {"query_id": "q12", "score": 0.0, "baseline": 1.0, "question": "Who found <Ceres>?"},
        {"query_id": "q40", "score": 0.25, "baseline": 0.5},
    ],
)


def test_a_failed_gate_says_before_and_after_and_which_questions_lost_most(assert_message):
    [case] = suite(LOST).findall("testcase")

    failure = case.find("failure")
    assert "0.594 -> 0.469: -0.125 [" in failure.get("message")
    lines = failure.text.splitlines()
    assert_message(lines[1:3])


def test_the_same_on_the_page_and_in_the_pull_request(assert_message):
    summary = {"name": "s", "systems": [], "gates": [LOST, gate("pass", means=[0.5, 0.5])]}

    text, page = render_markdown(summary, {}), render_html(summary, {})

    assert "0.594 -\\> 0.469" in text or "0.594 -&gt; 0.469" in text
    assert_message(lines_with(text, "Who found &lt;Ceres&gt;?"))
    assert_message(lines_with(page, "Who found &lt;Ceres&gt;?"))
    assert text.count("the worst queries:") == 1, "none of a gate that passed"


def test_the_time_is_that_of_the_run_or_is_not_said():
    summary = read(Summary, {"name": "s", "systems": [], "gates": [LOST]})

    assert ' time="12.500"' in junit.render_junit(summary, 12.5)
    assert " time=" not in junit.render_junit(summary)


def test_queries_that_are_compared_with_nothing_have_one_score():
    query = WorseQuery(query_id="q12", score=0.0, question="Who?")

    assert ci.worst_line(query) == "q12 Who?  0.00"


def test_queries_of_a_table_without_ids_have_their_row():
    query = WorseQuery(query_id="7bf71e757d16", score=0.0, question="Who?", row=13)

    assert ci.worst_line(query) == "row 13 Who?  0.00"
