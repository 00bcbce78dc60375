"""Check that hits are known to the judgements, and settings that match them where none is."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import chain

from ragbench.data.files.rows import encode_spaces
from ragbench.errors import DataError, list_names
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun
from ragbench.experiment.stages.matching import all_hits, has_own_id
from ragbench.score.retrieval import passage_matching
from ragbench.score.retrieval.notation import measures_of_ids
from ragbench.types import ScoredDocument

# Usual separators between the id of a document and the number of its part.
_SEPARATORS = ("#", "::", ":", "_", "-", "/")
# types of apps whose passages have metadata, and the option `id_field`
_FRAMEWORKS = ("langchain", "llama_index", "haystack")


class UnknownIds(DataError):
    """Ranking without any hit that is judged or in the corpus.

    The run is over: one that is called again is no resumption, as the retriever was changed.
    """


def check_ids(ranking: RetrieverRun, plan: Plan, *, is_app: bool = False) -> RetrieverRun:
    """Return the ranking, marked with `has_unknown_ids` if no hit is judged or in the corpus.

    If measures read ids, a marked ranking has a warning with an id of a hit and a judged one, or a
    note if it is of an app whose passages have no ids. Without hits or qrels, where hits are
    matched by their texts, and where a model judges passages, no ranking is marked.

    Args:
        ranking: Ranking as it is scored.
        plan: Plan with the measures, the qrels and the corpus.
        is_app: True for an app and for records: their answers are scored all the same.

    Raises:
        UnknownIds: No hit is judged or in the corpus, and measures read ids. The message names the
            part of the ids or the metadata that is judged.
    """
    qrels, corpus, run = plan.qrels, plan.corpus, ranking.run
    if qrels is None or not len(run) or plan.config.metrics.retrieval.match.level == "text":
        return ranking
    judged = dict.fromkeys(qrels.documents)  # in their order: every run names the same example
    names = (hit.document or hit.id for hit in all_hits(ranking, plan))
    if any(name in judged or name in corpus for name in chain(run.documents, names)):
        return ranking
    marked = replace(ranking, has_unknown_ids=plan.fill is None)
    if not measures_of_ids(plan.measures):
        return marked
    hits = list(all_hits(ranking, plan))
    problem = f"none of its {len(run)} hits is known to the judgements, such as '{hits[0].id}'"
    judged_part = _judged_part(hits, judged)
    if judged_part is not None:
        part, setting = judged_part
        raise UnknownIds(f"{problem}, while {part} is", record=ranking.name, allowed=setting)
    example = next(iter(judged))
    if plan.collection.documents and not is_app:
        document = plan.collection.documents[0].id
        ids = f"ids such as '{example}' (judged) or '{document}' (corpus)"
        raise UnknownIds(problem, record=ranking.name, allowed=f"{ids}; {_id_remedies(hits)}")
    score = "its measures of ids have no score (unknown_ids)"
    if is_app and not any(map(has_own_id, hits)):
        advice = _id_advice(ranking, plan, hits)
        note = f"{ranking.name}: its passages have no ids: {score}; {advice}"
        return replace(marked, notes=[*ranking.notes, note])
    if plan.fill is not None:
        score = "its scores count the grades of the model alone"
    remedy = "make the ids equal, or set id_field"
    if is_app:
        remedy = _field_advice(ranking, plan, hits) or "make the ids equal"
    warning = f"{ranking.name}: {problem} (judgements such as '{example}'): {score}; {remedy}"
    return replace(marked, warnings=[warning, *ranking.warnings])


def _field_advice(ranking: RetrieverRun, plan: Plan, hits: Sequence[ScoredDocument]) -> str | None:
    """Return `set id_field` with the metadata keys of the hits; None for an app without both."""
    app, keys = plan.config.apps.get(ranking.name), _metadata_keys(hits)
    if app is None or app.type not in _FRAMEWORKS or not keys:
        return None
    return f"set id_field to the metadata key of the ids: {list_names(keys)}"


def _id_advice(ranking: RetrieverRun, plan: Plan, hits: Sequence[ScoredDocument]) -> str:
    """Return the remedy for an app, or a table of answers, whose passages have texts alone."""
    app = plan.config.apps.get(ranking.name)
    if advice := _field_advice(ranking, plan, hits):
        return advice
    if app is not None and app.type in _FRAMEWORKS:
        advice = "give its documents metadata with their ids, and set id_field to that key"
    elif app is not None and app.type == "http":
        advice = 'write ids: "$.sources[*].id"'
    elif ranking.name in plan.apps:
        advice = "return contexts: [{id: ..., text: ...}]"
    else:
        advice = "write contexts as [{id: ..., text: ...}]"
    # texts are compared with those of the judged documents
    if plan.collection.documents:
        advice += ", or metrics: {retrieval: {match: {level: text}}}"
    return advice


def _metadata_keys(hits: Sequence[ScoredDocument]) -> list[str]:
    """Return the keys of the metadata of hits, each once."""
    return list(dict.fromkeys(chain.from_iterable(hit.metadata for hit in hits)))


def _id_remedies(hits: Sequence[ScoredDocument]) -> str:
    """Return the settings by which hits with other ids than the judgements can be matched."""
    keys = _metadata_keys(hits)
    remedies = [f"id_field: one of {list_names(keys)}"] if keys else []
    if any(hit.text for hit in hits):
        remedies.append("metrics.retrieval.match: {level: text} to compare texts")
    return "; ".join(remedies) or "the hits have no metadata for an id_field"


def _judged_part(hits: Sequence[ScoredDocument], judged: Container[str]) -> tuple[str, str] | None:
    """Return (part of the hits that is judged, setting that matches by it); None without one."""
    for key in _metadata_keys(hits):
        if any(encode_spaces(str(hit.metadata.get(key))) in judged for hit in hits):
            match = f"match: {{level: document, id: metadata.{key}}} where hits are parts of these"
            setting = f"id_field: {key}; or metrics.retrieval: {match}"
            return f"metadata '{key}' of the hits", setting
    for separator in _SEPARATORS:
        if any(passage_matching.before_last(hit.id, separator) in judged for hit in hits):
            match = f'match: {{level: document, separator: "{separator}"}}'
            return f"what stands before '{separator}'", f"metrics.retrieval: {match}"
    return None
