"""`report.html`: well-formed, offline, inert, small, and with the same tables."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings

from ragbench.records.gate import ARE_UNDECIDED
from ragbench.report.text import significant
from ragbench.types.display import printable
from tests.report.example import comparison, score, system
from tests.report.pages import render_html, render_terminal
from tests.report.strategies import HOSTILE, results

VOID = {"meta"}
TAGS = re.findall(
    r"\S+",
    """html head meta title style body header h1 p main div table caption thead tbody tr th td
    small ul li section h2 h3 figure figcaption svg path text dl dt dd details summary code
    footer nav a b script rect span ol""",
)
ATTRIBUTES = re.findall(
    r"\S+",
    """lang charset http-equiv content id name class role tabindex aria-label aria-hidden scope
    width height viewbox d x y text-anchor hidden href data-v preserveaspectratio fill stroke
    stroke-width stroke-dasharray opacity data-system data-cause open""",
)


class Checker(HTMLParser):
    """Fails on a tag that is not closed in order, or that the page has no business to have."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        # a name of a system that became a tag would be an unknown one
        assert tag in TAGS
        assert {name for name, _ in attributes} <= set(ATTRIBUTES)
        assert len({name for name, _ in attributes}) == len(attributes)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in ("path", "rect")
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open[-1:]), " ".join(data.split())))


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page.replace("/<wbr>", "/"))  # a place where a line may break is no text
    checker.close()
    assert checker.open == []
    return checker


def texts(page: str, tag: str) -> list[str]:
    return [text for where, text in check(page).texts if where == (tag,) and text]


def test_golden(example, golden):
    page = render_html(*example)
    bare = re.sub("(?s)<(style|script)>.*?</(style|script)>", r"<\1>...</\2>", page)
    golden("report_report.html", re.sub(r"sha256-[\w+/=]+", "sha256-...", bare))


def html_script(page):
    """The script of the page, whose hash its policy has."""
    script = re.search("<script>(.*)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in page
    return script


def test_nothing_can_be_loaded_and_nothing_runs(example):
    page = render_html(*example)

    policy = html.unescape(re.search('Content-Security-Policy" content="([^"]*)"', page)[1])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    style = re.search("<style>(.*)</style>", page, re.DOTALL)[1].encode()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == f"'sha256-{digest}'"
    page = page.replace(style.decode(), "").replace(html_script(page), "")
    # these stay within the page and load nothing
    page = re.sub('href="#[^"]*"', "", page)  # a place of the page itself
    assert not re.search(r"http(?!-equiv)|//|url\(|@import|href=|src=", page)


def test_tables_are_accessible(example):
    page = render_html(*example)

    assert len(re.findall("<table[ >]", page)) == page.count("<caption>")
    assert not re.search(r"<th(?! scope=)[ >]", page)
    page = page.replace(html_script(page), "")
    # small bars beside a number that says the same
    hidden = page.count('preserveAspectRatio="none" aria-hidden="true"')
    drawn = page.count('<svg class="picture" role="img" aria-label="')
    assert page.count("<svg") == hidden + drawn
    assert min(hidden, drawn) > 3


def test_the_page_shows_what_the_terminal_shows(example):
    page, text = render_html(*example), render_terminal(*example)

    for interval in re.findall(r"\[\S+, \S+\]", text):
        assert interval in page
    assert {"0.446 *", "0.420 =", "0.640 *"} <= set(texts(page, "td"))
    assert {"*", "=", "not shown"} <= set(texts(page, "dt"))


@pytest.mark.costly
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_inert(example, name):
    summary, comparisons = example
    summary["name"] = summary["dataset"]["name"] = summary["systems"][0]["name"] = name
    summary["warnings"] = summary["notes"] = [name]
    summary["judges"]["words"]["label"] = name
    summary["gates"][0] |= {"gate": name, "verdict": "fail", "why": name}
    for other in summary["systems"]:
        other["scores"] = {f"{name}{measure}": s for measure, s in other["scores"].items()}

    page = render_html(summary, comparisons)

    if name:
        assert " ".join(printable(name).split()) in texts(page, "h1")
    assert page.encode("utf-8")
    page = page.replace(html_script(page), "")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f]", page)


@pytest.mark.costly
@settings(deadline=None, max_examples=12)
@given(results())
def test_anything_can_be_drawn_and_every_mean_is_there(case):
    summary, comparisons = case
    cells = texts(render_html(summary, comparisons), "td")

    for one in summary["systems"]:
        for entry in one["scores"].values():
            assert any(cell.startswith(significant(entry["mean"])) for cell in cells)


@pytest.mark.costly
def test_twenty_systems_by_twenty_measures_stay_small():
    measures = [f"measure_{i:02}@10" for i in range(20)]
    names = [f"system-{i:02}/generator" for i in range(20)]
    systems = [
        system(names[i], {m: score((0.5 + i / 50, 0.4, 0.987), m) for m in measures})
        for i in range(20)
    ]
    summary = {"name": "large", "systems": systems, "baseline": names[0]}
    families = [
        {
            "measure": m,
            "kind": "generation",
            "best": names[19],
            "tied_with_best": names[10:],
            "comparisons": [
                comparison(names[i], names[0], (0.044, 0.023, 0.066), 0.0006, True)
                for i in range(1, 20)
            ],
        }
        for m in measures
    ]
    page = render_html(summary, {"baseline": names[0], "measures": families})

    assert len(page.encode("utf-8")) < 650_000, "20 pictures of 20 systems"
    assert page.count("<small>") > 20 * 20


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (
            ("pass", "fail", "undecided"),
            '<b class="fail">The gate failed</b>: 1 undecided, 1 failed',
        ),
        (("pass", "undecided"), '<b class="undecided">The gate is undecided</b>: 1 undecided'),
        (("pass", "pass"), "<b>The gate passed</b>: 2 passed"),
        ((), ""),
    ],
)
def test_the_first_sentences_have_the_verdict_of_the_gates(example, verdicts, sentence):
    summary, comparisons = example
    gates = [{"gate": f"map >= 0.{n}", "verdict": v, "why": ""} for n, v in enumerate(verdicts)]

    warnings = [*summary["warnings"], f"1 of 3 gates {ARE_UNDECIDED}"]
    page = render_html({**summary, "gates": gates, "warnings": warnings}, comparisons)

    doubts = page.partition('aria-label="doubtful numbers"')[2].partition("</section>")[0]
    assert (summary["warnings"][0] in doubts, ARE_UNDECIDED in doubts) == (True, False)
    lead = page.partition('<div class="lead">')[2].partition("</div>")[0]
    assert "The gate" in lead if verdicts else "The gate" not in page
    assert sentence in lead
    assert page.count("undecided, 1 failed") <= 1, "the results in words do not repeat it"
