"""Generated inputs for every test: few ids and few scores, so that ties and misses are frequent."""

from __future__ import annotations

from hypothesis import strategies as st

Nested = dict[str, dict[str, float]]

# prefixes of each other, two scripts, and both sides of the surrogates in UTF-16 order
DOCUMENT_IDS = ("d", "d1", "d10", "d2", "D2", "a b", "é", "語", "\uffee", "\U0001f600")
QUERY_IDS = ("q1", "q2", "q10", "ü")
# Exact as 32-bit floats too: pytrec_eval compares scores as those.
SCORES = (-1.5, 0.0, 0.25, 0.5, 0.75, 1.0, 12.0)
GRADES = (-2, -1, 0, 0, 1, 1, 2, 3, 7)


def rankings(max_size: int = len(DOCUMENT_IDS)) -> st.SearchStrategy[dict[str, float]]:
    """Draw one query's hits: {document id: score}, at least one, often tied.

    An empty one crashes pytrec_eval; what retrieved nothing is a query that the run lacks.
    """
    return st.dictionaries(
        st.sampled_from(DOCUMENT_IDS), st.sampled_from(SCORES), min_size=1, max_size=max_size
    )


def judgements() -> st.SearchStrategy[dict[str, int]]:
    """Draw one query's judgements: {document id: grade}, at least one, perhaps none relevant.

    One grade at least is not negative: trec_eval's code, and so pytrec_eval, crashes without.
    """
    return st.dictionaries(
        st.sampled_from(DOCUMENT_IDS), st.sampled_from(GRADES), min_size=1, max_size=8
    ).filter(lambda judged: max(judged.values()) >= 0)


def qrels_and_run() -> st.SearchStrategy[tuple[dict[str, dict[str, int]], Nested]]:
    """Draw qrels with at least one query, and a run that may lack some and have others."""
    queries = st.sampled_from(QUERY_IDS)
    return st.tuples(
        st.dictionaries(queries, judgements(), min_size=1, max_size=4),
        st.dictionaries(queries, rankings(), max_size=4),
    )


def judged_list() -> st.SearchStrategy[tuple[list[str], dict[str, int]]]:
    """Draw one ranked list of ids, repeated ones included, and judgements."""
    return st.tuples(st.lists(st.sampled_from(DOCUMENT_IDS), max_size=12), judgements())
