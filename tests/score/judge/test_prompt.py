"""Prompts: what is in them, in which order, and the schemas of their replies."""

import json

import jsonschema
import pytest

from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.methods.prompt import Prompts
from ragbench.score.judge.methods.templates import prompt_parts
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric, read_rubric
from tests.score.judge.previews import preview

ITEM = JudgedItem(
    question="Who found Ceres?",
    answer="Piazzi [1].",
    contexts=["Piazzi found it.", "It is round."],
    references=["Giuseppe Piazzi", "Piazzi"],
    queries=["discovery of Ceres"],
    guidelines=["Be brief."],
    other="Gauss.",
)
CLAIMS = Prompts(load_rubric("faithfulness"), ITEM)


@pytest.fixture
def own_rubric(tmp_path):
    """Make a rubric of a user's from lines of YAML."""

    def make(text):
        path = tmp_path / "own.yaml"
        path.write_text(f"name: own\nscale: {{1: bad, 4: good}}\n{text}", encoding="utf-8")
        return read_rubric(path)

    return make


def labels_in(prompt):
    token = prompt.user.partition("\n")[0].removeprefix("Fence word: ")
    ends = [line for line in prompt.user.splitlines() if line.endswith(f"-{token}>")]
    return [end[1 : -len(token) - 2] for end in ends if not end.startswith("</")]


def test_what_a_rating_shows(own_rubric):
    everything = own_rubric("needs: [answer, queries, reference, contexts, guidelines, question]\n")
    assert labels_in(Prompts(everything, ITEM).rating()) == [
        "question",
        "guideline-1",
        "passage-1",
        "passage-2",
        "reference-1",
        "reference-2",
        "query-1",
        "answer",
    ]
    few = own_rubric("needs: [answer]\n")
    assert labels_in(Prompts(few, ITEM).rating()) == ["answer"], "nothing that it does not need"


def test_a_passage_is_rated_by_itself():
    rubric = load_rubric("passage_relevance")
    first, second = (Prompts(rubric, ITEM).rating(passage=number) for number in (0, 1))
    assert labels_in(first) == labels_in(second) == ["question", "passage"]
    assert "Piazzi found it." in first.user
    assert "Piazzi found it." not in second.user
    assert first.system == second.system


def test_levels_steps_and_guidelines_of_a_rubric_are_sent(own_rubric, assert_message):
    rubric = own_rubric("needs: [answer]\nsteps: [Look twice.]\nguidelines: [Be kind.]\n")
    system = Prompts(rubric, ITEM).rating().system
    assert_message(system)
    assert "\nGuidelines:\n1. Be kind.\n" in system
    assert "\nSteps:\n1. Look twice.\n" in system
    assert "Example" not in system


def test_few_shot_differs_from_zero_shot_by_the_examples():
    for name in built_in_rubrics():
        rubric = load_rubric(name)
        pairs = zip(preview(rubric), preview(rubric, few_shot=False), strict=True)
        for (_, few), (_, zero) in pairs:
            assert (few.user, few.schema) == (zero.user, zero.schema), name
            assert "Example 2:" in few.system, name
            assert "Example" not in zero.system, name
            start, _, end = few.system.partition("\n\nExample 1:\n")
            assert zero.system.startswith(start), name
            assert end.endswith(zero.system[len(start) :].strip()), name
        assert prompt_parts(rubric, few_shot=False) == {**prompt_parts(rubric), "examples": None}


APPLIED = {"type", "enum", "properties", "required", "additionalProperties", "items"}


def keywords_of(schema):
    parts = [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]
    return set(schema).union(*map(keywords_of, parts))


@pytest.mark.costly
def test_the_replies_of_examples_fit_the_schema():
    # Each reply of an example fits the schema of its own request
    for name in built_in_rubrics():
        for _, prompt in preview(load_rubric(name)):
            jsonschema.Draft202012Validator.check_schema(prompt.schema)
            assert keywords_of(prompt.schema) <= APPLIED, f"{name}: `conform` ignores the others"
            replies = [line for line in prompt.system.splitlines() if line.startswith('{"')]
            read = [
                json.loads(line) for line in replies if "..." not in line and '["claim"' not in line
            ]
            assert len(read) >= 2, name
            for reply in read:
                if set(reply) == set(prompt.schema["properties"]):
                    jsonschema.validate(reply, prompt.schema)
                else:
                    numbers = [int(key.rpartition("_")[2]) for key in reply]
                    # of turns, those of one speaker alone
                    some = all(key.startswith("turn_") for key in reply)
                    assert numbers == (
                        sorted({*numbers}) if some else [*range(1, len(reply) + 1)]
                    ), name


def test_reasons_come_first():
    rating = Prompts(load_rubric("fluency"), ITEM).rating()
    assert list(rating.schema["properties"]) == ["reasoning", "level"]
    [verdict] = CLAIMS.verdicts(["a"], "b").schema["properties"].values()
    assert list(verdict["properties"]) == ["reason", "verdict"]


@pytest.mark.parametrize(
    ("reply", "fits"),
    [
        ({"claim_1": "supported", "claim_2": "contradicted"}, True),
        ({"claim_1": "supported"}, False),
        ({"claim_1": "supported", "claim_2": "maybe"}, False),
        ({"claim_1": "supported", "claim_2": "supported", "claim_3": "supported"}, False),
    ],
)
def test_a_reply_has_one_verdict_for_each_claim(reply, fits):
    schema = CLAIMS.verdicts(["a", "b"], "c").schema
    whole = {key: {"reason": "so", "verdict": word} for key, word in reply.items()}
    assert jsonschema.Draft202012Validator(schema).is_valid(whole) == fits


def test_the_prompts_on_claims_do_not_depend_on_the_rubric():
    # Replies for faithfulness serve hallucination and the other rubrics on claims
    prompts = {}
    for name in ("faithfulness", "hallucination", "citation_recall", "correctness"):
        rubric = load_rubric(name)
        for purpose, prompt in preview(rubric, few_shot=True):
            prompts.setdefault(purpose, set()).add(prompt.system)
    assert all(len(systems) == 1 for systems in prompts.values())
    assert len({system for systems in prompts.values() for system in systems}) == 3


@pytest.mark.parametrize("passages", ["together", "each"])
def test_only_what_a_rubric_sends_moves_its_fingerprint(passages):
    # The window of passages does not concern a rubric that reads no passages
    prints = {
        name: prompt_parts(load_rubric(name), passages=passages)
        for name in ("fluency", "correctness", "faithfulness", "hallucination")
    }
    other = "each" if passages == "together" else "together"
    moved = {
        name
        for name, fingerprint in prints.items()
        if prompt_parts(load_rubric(name), passages=other) != fingerprint
    }
    assert moved == {"faithfulness", "hallucination"}


def test_prompts_about_the_same_passages_begin_alike():
    # Claims come last, so that a server can cache the prompt up to them
    passages = ["Piazzi found it.", "It is round."]
    one, other = (
        CLAIMS.passages(claims, passages)
        for claims in (["Piazzi found Ceres."], ["Ceres is round.", "Ceres is small."])
    )
    assert one.system == other.system
    assert len(one.system) / 4.5 > 1_024, "the least that servers cache, in tokens of English"
    start, _, _ = one.user.partition("<claim-1-")
    assert other.user.startswith(start)
    assert all(passage in start for passage in passages)


def test_what_changes_comes_last():
    assert labels_in(CLAIMS.passages(["a", "b"], ["p", "q"])) == [
        "question",
        "passage-1",
        "passage-2",
        "claim-1",
        "claim-2",
    ]
    assert labels_in(CLAIMS.verdicts(["a"], "s")) == ["question", "source", "claim-1"]


def test_steps_of_an_own_rubric_on_claims_are_sent(own_rubric):
    rubric = own_rubric("needs: [answer, contexts]\nmethod: claims\nsteps: [Units may differ.]\n")
    splitting, checking = preview(rubric)
    assert "\n7. Units may differ.\n" in checking.prompt.system
    assert "Units" not in splitting.prompt.system


def test_both_orders_of_a_pair():
    rubric = load_rubric("pairwise")
    straight, swapped = (Prompts(rubric, ITEM).pairwise(swapped=s) for s in (False, True))
    assert straight.system == swapped.system
    assert labels_in(straight) == labels_in(swapped) == ["question", "answer-A", "answer-B"]
    order = [
        prompt.user.index("Piazzi") < prompt.user.index("Gauss") for prompt in (straight, swapped)
    ]
    assert order == [True, False]


def test_nuggets_are_assigned_without_their_importance():
    rubric = load_rubric("nugget_recall")
    making = Prompts(rubric, ITEM).nuggets(ITEM.references)
    assert labels_in(making) == ["question", "source-1", "source-2"]
    assigning = Prompts(rubric, JudgedItem(answer="Piazzi.")).assignment(["Piazzi", "1801"])
    assert labels_in(assigning) == ["answer", "nugget-1", "nugget-2"]
    assert "vital" not in assigning.system + assigning.user


def test_numbers_in_requests_read_well(assert_message):
    one, two = (CLAIMS.claims(["a."] * count).user for count in (1, 2))
    assert "1 in all: sentence_1." in one
    assert_message(two)


@pytest.mark.parametrize("name", ["fluency", "hallucination", "pairwise", "nugget_recall"])
def test_golden(name, golden):
    # The exact words: a change moves the fingerprint, and with it every signature
    rubric = load_rubric(name)
    parts = [f"{part} {value}" for part, value in prompt_parts(rubric).items()]
    for purpose, prompt in preview(rubric):
        schema = json.dumps(prompt.schema)
        parts += [f"=== {purpose}", prompt.system, "---", prompt.user, "---", schema]
    golden(f"prompt_{name}.txt", "\n".join(parts) + "\n")
