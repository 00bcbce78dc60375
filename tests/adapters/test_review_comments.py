"""The comment of a job: found again, edited in place, and nothing of another author changed."""

import json

import pytest

from ragbench.adapters.review_comments import find_thread
from ragbench.errors import DataError, OptionError
from ragbench.llm import CallFailure
from tests.review_server import ReviewServer

MARKER = "<!-- ragbench:search.yaml -->"
BOT = {"login": "github-actions[bot]", "type": "Bot"}
ALICE = {"login": "alice", "type": "User"}


@pytest.fixture
def server():
    with ReviewServer() as server:
        yield server


@pytest.fixture
def github(server, tmp_path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"action": "synchronize", "pull_request": {"number": 7}}))
    return {
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "acme/search",
        "GITHUB_API_URL": server.url,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "9",
        "GITHUB_TOKEN": "token-of-the-job",
    }


@pytest.fixture
def gitlab(server):
    return {
        "CI_API_V4_URL": server.url,
        "CI_MERGE_REQUEST_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_JOB_URL": "https://gitlab.example/acme/search/-/jobs/5",
        "GITLAB_TOKEN": "token-of-a-bot",
    }


def test_the_first_job_posts_and_the_next_one_edits(server, github):
    thread = find_thread(github)
    thread.publish(MARKER, "first")
    thread.publish(MARKER, "second")

    assert server.writes == [
        ("POST", "/repos/acme/search/issues/7/comments"),
        ("PATCH", "/repos/acme/search/issues/comments/100"),
    ]
    assert [comment["body"] for comment in server.comments] == [f"{MARKER}\nsecond"]
    assert thread.link == "https://github.com/acme/search/actions/runs/9"
    for _, _, headers, _ in server.requests:
        assert headers["Authorization"] == "Bearer token-of-the-job"
        assert headers["User-Agent"] == "ragbench"


def test_gitlab_has_notes_and_puts(server, gitlab):
    server.user = {"username": "project_12_bot"}
    thread = find_thread(gitlab)
    thread.publish(MARKER, "first")
    server.comments[0]["author"] = server.comments[0].pop("user")
    thread.publish(MARKER, "second")

    assert server.writes == [
        ("POST", "/projects/12/merge_requests/7/notes"),
        ("PUT", "/projects/12/merge_requests/7/notes/100"),
    ]
    assert thread.link == "https://gitlab.example/acme/search/-/jobs/5/artifacts/browse"
    assert all(headers["PRIVATE-TOKEN"] == "token-of-a-bot" for _, _, headers, _ in server.requests)


def test_a_merge_request_of_a_fork_is_in_the_other_project(gitlab):
    fork = {**gitlab, "CI_PROJECT_ID": "99"}

    assert find_thread(fork).comments == "projects/12/merge_requests/7/notes"


def test_the_own_comment_is_found_on_a_later_page(server, github):
    server.comments = [{"id": n, "user": ALICE, "body": "a question"} for n in range(200)]
    server.comments.append({"id": 999, "user": BOT, "body": f"{MARKER}\nold"})

    find_thread(github).publish(MARKER, "new")

    assert server.writes == [("PATCH", "/repos/acme/search/issues/comments/999")]
    pages = [path.partition("?")[2] for method, path, *_ in server.requests if "page=" in path]
    assert pages == [f"per_page=100&page={page}" for page in (1, 2, 3)]


@pytest.mark.parametrize(
    ("user", "authors", "edited"),
    [
        (None, [ALICE, None, BOT], 2),  # the token of a job: the comment of a bot
        (ALICE, [BOT, ALICE], 1),  # the token of a person
        (None, [ALICE, None], None),  # people and deleted users who pasted the marker
        (ALICE, [BOT, {"login": "bob"}], None),
    ],
)
def test_a_pasted_marker_is_left_alone(server, github, user, authors, edited):
    server.user = user
    server.comments = [
        {"id": n, "user": author, "body": f"{MARKER}\n{n}"} for n, author in enumerate(authors)
    ]

    find_thread(github).publish(MARKER, "new")

    texts = [comment["body"] for comment in server.comments]
    assert texts.count(f"{MARKER}\nnew") == 1
    assert texts.index(f"{MARKER}\nnew") == (len(authors) if edited is None else edited)


def test_two_configs_have_two_comments(server, github):
    thread = find_thread(github)
    for marker in (MARKER, MARKER.replace("search", "answers")):
        thread.publish(marker, "text")

    assert [method for method, _ in server.writes] == ["POST", "POST"]


def test_a_token_that_may_only_read_is_named_without_the_token(server, github):
    server.read_only = True

    with pytest.raises(CallFailure, match=r"403.*Resource not accessible") as failure:
        find_thread(github).publish(MARKER, "text")

    assert "token-of-the-job" not in str(failure.value)
    assert [method for method, _ in server.writes] == ["POST"], "no second try"


def test_a_reply_that_is_no_list_is_malformed(server, github):
    server.reply = lambda method, target, body: (200, {"message": "maintenance"})

    with pytest.raises(CallFailure, match="malformed"):
        find_thread(github).publish(MARKER, "text")


def test_a_token_with_a_line_break_is_refused_without_the_token(github):
    with pytest.raises(OptionError) as error:
        find_thread({**github, "GITHUB_TOKEN": "secret\n-token"}).publish(MARKER, "text")

    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("{}", "checks no pull request"),
        ('{"pull_request": {}}', "checks no pull request"),
        ("[]", "checks no pull request"),
        ("{", "the event cannot be read"),
        (None, "the event cannot be read"),
    ],
)
def test_an_event_without_a_pull_request(github, tmp_path, event, says):
    path = tmp_path / "other.json"
    if event is not None:
        path.write_text(event)

    with pytest.raises(DataError, match=says):
        find_thread({**github, "GITHUB_EVENT_PATH": str(path)})


def test_no_job_and_no_token(github, gitlab):
    with pytest.raises(DataError, match="checks no pull request"):
        find_thread({})
    with pytest.raises(DataError, match="GITHUB_TOKEN is not set"):
        find_thread({**github, "GITHUB_TOKEN": ""})
    with pytest.raises(DataError, match="GITLAB_TOKEN is not set"):
        find_thread({name: value for name, value in gitlab.items() if name != "GITLAB_TOKEN"})


def test_a_missing_variable_of_the_job_is_named(github, gitlab):
    """Without this, a request went to `repos/None`, and the comment linked to `runs/None`."""
    for job in (github, gitlab):
        for name in job.keys() - {"GITHUB_EVENT_PATH", "CI_MERGE_REQUEST_IID"}:
            with pytest.raises(DataError, match=f"{name} is not set"):
                find_thread({**job, name: ""})
