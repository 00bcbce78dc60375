"""Queries of the same id are compared only where they are the same queries."""

from dataclasses import dataclass, replace
from itertools import compress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench import evaluate_run, evaluate_texts
from ragbench.comparison.matching import match_sources
from ragbench.comparison.sources import from_evaluation
from ragbench.data.runs.run_lines import fingerprint_queries
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.types import Collection, Qrels, Query
from tests.comparison.scored_systems import column, source, system

IDS = [f"q{n}" for n in range(7)]
# Score -> what it depends on besides the question
DEPENDS = {"mrr": "judgements", "exact_match": "answers"}


@dataclass(frozen=True)
class Asked:
    """Hold a query with its judgements and answers, so that tests need no fingerprint."""

    question: str
    judgements: tuple[tuple[str, int], ...]
    answers: tuple[str, ...]


QUERIES = st.builds(
    Asked,
    st.sampled_from(["Who?", "Why?"]),
    st.sampled_from([(("d1", 1),), (("d1", 0),), (("d1", 1), ("d2", 2)), (("d1", 2), ("d2", 1))]),
    st.sampled_from([("Io",), ("Io", "Europa"), ()]),
)
SAME = Asked("Who?", (("d1", 1),), ("Io",))
# A data set without any gold answer has no `exact_match`.
DATA = st.dictionaries(st.sampled_from(IDS), st.just(SAME) | QUERIES, min_size=1).filter(
    lambda data: any(facts.answers for facts in data.values())
)


def scored(where, data, *, texts=True):
    """Score one system on data; without texts as a run file, which has no questions."""
    queries = [Query(name, facts.question) for name, facts in data.items()]
    qrels = Qrels.from_dict({name: dict(facts.judgements) for name, facts in data.items()})
    answers = {name: list(facts.answers) for name, facts in data.items()}
    ranked = evaluate_run({name: {"d2": 2.0, "d1": 1.0} for name in data}, qrels, ["mrr"])
    answered = evaluate_texts(["Io"] * len(data), [*answers.values()], ["exact_match"])
    columns = {**ranked.columns, **answered.columns}
    kinds = {"mrr": "retrieval", "exact_match": "generation"}
    prints = dict(fingerprint_queries(queries, Collection(queries, answers=answers), qrels))
    if not texts:
        del prints["question"]
    return ScoredSystems(
        where,
        {"s": SystemScores("s", "s", None, columns, kinds)},
        list(data),
        fingerprints=prints,
    )


def differ(measures, *data, texts=False):
    """The common queries, and those that are not the same, by what the measures depend on."""
    parts = [*(["question"] if texts else []), *(DEPENDS[name] for name in measures)]
    common = [name for name in data[0] if all(name in other for other in data)]
    differing = {
        part: tuple(n for n in common if len({getattr(other[n], part) for other in data}) > 1)
        for part in parts
    }
    return common, {part: names for part, names in differing.items() if names}


MEASURES = st.sampled_from([("mrr",), ("exact_match",), ("mrr", "exact_match")])


@settings(max_examples=30)
@given(st.lists(DATA, min_size=2, max_size=3), MEASURES, st.sampled_from([0, 1, 2, None]))
@example([dict.fromkeys(IDS, SAME), {"q0": replace(SAME, question="Why?")}], ("mrr",), None)
@example([{"q0": SAME}, {"q0": SAME}, {"q0": replace(SAME, question="Why?")}], ("mrr",), 0)
def test_what_is_compared_is_the_same_in_all_sources(data, measures, silent):
    # `silent` is the source that keeps no texts, as a run file does
    has_question = [place != silent for place in range(len(data))]
    sources = [
        scored(f"source {place}", facts, texts=has_question[place])
        for place, facts in enumerate(data)
    ]
    common, differing = differ(measures, *data)
    questions = [
        {data[place][name].question for place in compress(range(3), has_question)}
        for name in common
    ]
    if other := tuple(
        name for name, texts in zip(common, questions, strict=True) if len(texts) > 1
    ):
        differing["question"] = other
    apart = {name for names in differing.values() for name in names}

    try:
        matched = match_sources(sources[0], sources[1:], measures=measures, intersect=True)
    except DataError:
        assert not common or 2 * len(apart) > len(common)
        return

    assert 2 * len(apart) <= len(common)
    assert [*matched.sources[0].query_ids] == sorted({*common} - apart)
    assert dict(matched.differing) == differing
    assert all(facts.query_ids == matched.sources[0].query_ids for facts in matched.sources)


@given(DATA, DATA, MEASURES)
@settings(max_examples=30)
def test_without_intersect_all_is_the_same(mine, theirs, measures):
    try:
        match_sources(scored("a", mine), [scored("b", theirs)], measures=measures)
    except DataError:
        assert (mine, [*mine]) != (theirs, [*theirs])
        return
    common, differing = differ(measures, mine, theirs, texts=True)
    assert len(common) == len(mine) == len(theirs)
    assert not differing


def test_what_differs_is_named_part_by_part(assert_message):
    mine = dict.fromkeys(IDS, SAME)
    other = replace(SAME, judgements=(("d1", 2),))
    theirs = {**mine, "q1": other, "q4": other, "new": SAME}
    sources = scored("a", mine), scored("b", theirs)

    with pytest.raises(DataError) as refused:
        match_sources(sources[0], [sources[1]], measures=["mrr"])
    matched = match_sources(sources[0], [sources[1]], measures=["mrr"], intersect=True)

    assert_message(str(refused.value).splitlines())
    assert_message(matched.notes)
    # no answer depends on the judgements
    assert not match_sources(
        sources[0], [sources[1]], measures=["exact_match"], intersect=True
    ).differing


def test_ids_that_mean_something_else_are_refused(assert_message):
    mine = {name: replace(SAME, question=f"On {name}?") for name in IDS}
    theirs = {name: replace(SAME, question="Else?") for name in IDS[:6]}

    with pytest.raises(DataError) as refused:
        match_sources(
            scored("cranfield", mine), [scored("cacm", theirs)], measures=["mrr"], intersect=True
        )

    assert_message(str(refused.value).splitlines())


def test_what_nobody_asked_is_said():
    run = scored("run", dict.fromkeys(IDS, SAME))
    rankings = [
        from_evaluation(
            name, evaluate_run({"q0": {"d1": 1.0}}, {q: {"d1": 1} for q in ids}, ["mrr"])
        )
        for name, ids in (("a.trec", IDS), ("b.trec", IDS[:5]))
    ]

    unknown = "the questions of a.trec are not known and were not compared"
    assert unknown in match_sources(run, rankings[:1]).notes
    # of two run files that goes without saying: both have the judgements of --qrels
    for other in rankings:
        notes = match_sources(rankings[0], [other], intersect=True).notes
        assert [note for note in notes if "not known" in note] == []


def test_the_order_of_the_records_is_no_other_data():
    mine = dict.fromkeys(IDS, SAME) | {"q1": replace(SAME, answers=("Europa",))}
    turned = dict(reversed(mine.items()))

    matched = match_sources(scored("a", mine), [scored("b", turned)], intersect=True)

    assert [*matched.sources[1].query_ids] == IDS
    assert not matched.differing


def test_weights_of_tokens_are_of_all_references(assert_message):
    # With idf a score depends on the references of other queries too
    prints = {"answers": dict.fromkeys(["q0", "q1", "q2"], "0" * 12)}

    def sides(idf):
        return [
            source(
                name,
                system("s", column([1] * n, "bertscore", signature={"gold": name, "idf": idf})),
                fingerprints=prints,
                data={"queries": "1a"},
            )
            for name, n in (("a", 3), ("b", 2))
        ]

    base, run = sides("no")
    assert len(match_sources(base, [run], intersect=True).sources[0].query_ids) == 2
    base, run = sides("yes")
    with pytest.raises(DataError) as caught:
        match_sources(base, [run], intersect=True)
    assert_message(caught.value)


def test_judgements_without_fingerprints_of_each_query_have_to_be_the_same_as_a_whole(
    assert_message,
):
    def sides(*signed):
        return [
            source(name, system("s", column([1] * n, signature={"qrels": qrels})))
            for name, n, qrels in zip("ab", (3, 2), signed, strict=True)
        ]

    base, run = sides("3c", "3c")
    assert len(match_sources(base, [run], intersect=True).sources[0].query_ids) == 2
    base, run = sides("3c", "people+model(x,grades=4d)")
    with pytest.raises(DataError) as caught:
        match_sources(base, [run], intersect=True)
    assert_message(caught.value)


def test_another_measure_is_refused_with_intersect_as_without(assert_message):
    base = source("a", system("s", column([1, 1], signature={"ties": "docid"})))
    run = source("b", system("s", column([1], signature={"ties": "average"})))

    with pytest.raises(DataError) as caught:
        match_sources(base, [run], intersect=True)
    assert_message(caught.value)
    without_qrels = source("b", system("s", column([1], signature={"qrels": None})))
    with pytest.raises(DataError) as caught:
        match_sources(base, [without_qrels], intersect=True)
    assert_message(caught.value)


def test_the_order_of_the_questions_in_the_data_is_no_difference():
    data = {"q1": SAME, "q2": Asked("Why?", (("d1", 1),), ("Europa",))}
    turned = dict(reversed(data.items()))

    matched = match_sources(scored("old", data), [scored("new", turned)], measures=["exact_match"])

    assert matched.sources[1].query_ids == ["q1", "q2"]


def test_a_measure_of_other_judgements_is_not_among_those_that_can_be_compared(assert_message):
    mine = dict.fromkeys(IDS, SAME)
    theirs = {**mine, "q1": replace(SAME, judgements=(("d1", 2),))}

    with pytest.raises(DataError) as refused:
        match_sources(scored("a", mine), [scored("b", theirs)])

    assert_message(str(refused.value).splitlines())
