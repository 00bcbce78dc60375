"""Comment of a job on a pull request of GitHub or a merge request of GitLab, edited in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from ragbench.adapters.http import Endpoint
from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.llm.base import CallFailure
from ragbench.types import Cause

_TIMEOUT_S = 30.0
_PAGE = 100  # comments of a reply, the most that both APIs give
# Variable that a job must set itself -> how it does so
_TOKENS = {
    "GITHUB_TOKEN": "env: {GITHUB_TOKEN: ${{ github.token }}} in the step",
    "GITLAB_TOKEN": "a project access token as a masked variable of the project",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewThread:
    """Comments of a pull request of GitHub or a merge request of GitLab.

    `find_thread` makes it. `publish` adds or replaces a comment, and raises CallFailure if the
    server refuses it.

    Attributes:
        api: Address of the API.
        headers: Headers of each request, with the token.
        comments: Path of the comments.
        comment: Path of a single comment, without its id.
        edit: HTTP method that replaces the text of a comment.
        link: Address of the job, with its log and files.
    """

    api: str
    headers: Mapping[str, str]
    comments: str
    comment: str
    edit: Literal["PATCH", "PUT"]
    link: str

    def publish(self, marker: str, text: str) -> None:
        """Replace the own comment that starts with a marker, or else add a comment.

        Args:
            marker: Line that a reader does not see, by which the next job finds the comment.
            text: Markdown below the marker.

        Raises:
            CallFailure: The server cannot be reached, refuses a request, or its reply is malformed.
            OptionError: The address, the token or the proxy is invalid.
        """
        body = {"body": f"{marker}\n{text}"}
        comment_id = self._own_comment(marker)
        if comment_id is None:
            self._call("POST", self.comments, body)
        else:
            self._call(self.edit, f"{self.comment}/{comment_id}", body)

    def _own_comment(self, marker: str) -> object:
        """Return the id of the first own comment that starts with a marker."""
        comments = []
        for c in self._all_comments():
            if str(c.get("body")).startswith(marker):
                comments.append(c)
        if not comments:
            return None
        try:
            name = _user_name(self._call("GET", "user"))
        except CallFailure:  # the token of a GitHub job belongs to a bot, which is no user
            name = None
        for comment in comments:
            author = comment.get("user") or comment.get("author") or {}  # None: a deleted user
            if _user_name(author) == name if name else author.get("type") == "Bot":
                return comment.get("id")
        return None

    def _all_comments(self) -> Iterator[dict[str, Any]]:
        """Yield all comments in the order of the server, page by page."""
        for page in count(1):
            comments = self._call("GET", f"{self.comments}?per_page={_PAGE}&page={page}")
            if not isinstance(comments, list):
                raise CallFailure(Cause.MALFORMED, f"{self.comments}: the reply is no list")
            for comment in comments:
                if isinstance(comment, dict):
                    yield comment
            if len(comments) < _PAGE:
                return

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON reply to a request; `path` follows the address of the API."""
        retries = 0 if method == "POST" else 2
        url = f"{self.api}/{path}"
        endpoint = Endpoint("comment", url, self.headers, timeout=_TIMEOUT_S, retries=retries)
        return endpoint.send(method, body)


def find_thread(environment: Mapping[str, str]) -> ReviewThread:
    """Return the comments of the pull request that a job of GitHub or GitLab checks.

    Args:
        environment: Variables of the job. GITHUB_TOKEN or GITLAB_TOKEN holds the token.

    Raises:
        DataError: The job checks no pull request, its event cannot be read, or it lacks a variable,
            such as that of the token.
    """
    if path := environment.get("GITHUB_EVENT_PATH"):
        try:
            event = load_json(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"the event cannot be read: {error}", file=path) from error
        match event:
            case {"pull_request": {"number": int(number)}}:
                return _github_thread(number, environment)
    elif merge_request := environment.get("CI_MERGE_REQUEST_IID"):
        return _gitlab_thread(merge_request, environment)
    allowed = "a job of GitHub on pull_request, or of GitLab for a merge request"
    raise DataError("the job checks no pull request or merge request", allowed=allowed)


def _github_thread(number: int, environment: Mapping[str, str]) -> ReviewThread:
    """Return the comments of a pull request; raise DataError without a variable of the job."""
    token = _variable("GITHUB_TOKEN", environment)
    repository = _variable("GITHUB_REPOSITORY", environment)
    page = f"{_variable('GITHUB_SERVER_URL', environment)}/{repository}"
    return ReviewThread(
        api=_variable("GITHUB_API_URL", environment),
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "ragbench",  # GitHub refuses requests without one
        },
        comments=f"repos/{repository}/issues/{number}/comments",
        comment=f"repos/{repository}/issues/comments",
        edit="PATCH",
        link=f"{page}/actions/runs/{_variable('GITHUB_RUN_ID', environment)}",
    )


def _gitlab_thread(merge_request: str, environment: Mapping[str, str]) -> ReviewThread:
    """Return the notes of a merge request; raise DataError without a variable of the job."""
    token = _variable("GITLAB_TOKEN", environment)
    # the pipeline of a fork runs in the fork; the merge request is in this project
    project = _variable("CI_MERGE_REQUEST_PROJECT_ID", environment)
    notes = f"projects/{project}/merge_requests/{merge_request}/notes"
    return ReviewThread(
        api=_variable("CI_API_V4_URL", environment),
        headers={"PRIVATE-TOKEN": token, "User-Agent": "ragbench"},
        comments=notes,
        comment=notes,
        edit="PUT",
        link=f"{_variable('CI_JOB_URL', environment)}/artifacts/browse",
    )


def _variable(name: str, environment: Mapping[str, str]) -> str:
    """Return a variable of the job; raise DataError if it is missing or empty."""
    if value := environment.get(name):
        return value
    raise DataError(f"{name} is not set", allowed=_TOKENS.get(name))


def _user_name(user: Any) -> object:
    """Return the name of a user of GitHub or GitLab; None if the reply is no user."""
    return (user.get("login") or user.get("username")) if isinstance(user, dict) else None
