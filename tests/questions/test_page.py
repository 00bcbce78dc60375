"""The page on making questions: its commands print what it shows, against a scripted model."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from ragbench.data.runs.run_folder import to_csv
from ragbench.testing import ChatServer
from tests.commands import run_command
from tests.test_docs_first import BLOCK, lines_of, write_files

PAGE = Path(__file__).parents[2] / "docs/questions.md"
# Title of a document -> what the model writes about it, first and second.
QUESTIONS = {
    "Leave": [
        (
            "How many days of leave does somebody get who has just started?",
            "25 days",
            "A new employee has 25 days of leave a year.",
        ),
        (
            "When does unused leave lapse?",
            "at the end of March",
            "Days that are left at the end of March expire.",
        ),
    ],
    "Travel": [
        (
            "Who approves a trip to a customer in another country?",
            "the head of the department",
            "A trip abroad is approved by the head of the department.",
        ),
        (
            "Which trips of employees need nobody's approval?",
            "within the country",
            "Trips within the country need no approval.",
        ),
    ],
    "Security": [
        (
            "What does the text say about lost phones?",
            "report within 24 hours",
            "Report a lost laptop or phone within 24 hours.",
        ),
        (
            "How many characters must a password have?",
            "at least 14 characters",
            "Passwords have at least 14 characters.",
        ),
    ],
}
# What the model knows without the passages.
MEMORY = {"Who approves a trip to a customer in another country?": "the head of the department"}
ANSWERS = {question: answer for rows in QUESTIONS.values() for question, answer, _ in rows}


def reply(body):
    system, user = (message["content"] for message in body["messages"])
    if "You write exam questions" in system:
        title = re.search(r"<title-\w+>\n(.*)\n", user)[1]
        question, answer, quote = QUESTIONS[title]["<earlier-1-" in user]
        return json.dumps({"question": question, "answer": answer, "quote": quote})
    question = re.search(r"<question-\w+>\n(.*)\n", user)[1]
    answers = MEMORY if "from memory" in system else ANSWERS
    return json.dumps({"found": question in answers, "answer": answers.get(question, "")})


def save_review(questions, saved):
    """Save what the review page saves of three questions: kept, edited, dropped."""
    with questions.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    rows[0] |= {"reviewed": "yes"}
    rows[1] |= {"question": f"Please: {rows[1]['question']}", "reviewed": "edited"}
    rows[2] |= {"keep": "no", "reviewed": "yes"}
    saved.write_text(to_csv([*rows[0]], [[*row.values()] for row in rows]), encoding="utf-8")


@pytest.mark.slow  # a whole run
def test_the_page_shows_what_its_commands_print(tmp_path):
    write_files("connect.md", tmp_path)
    (tmp_path / "qa.csv").unlink()
    printed = ""
    with ChatServer(reply) as server:
        for language, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if language == "text":
                missing = lines_of(block) - lines_of(printed)
                assert not missing, f"the page shows {missing}, and its commands print\n{printed}"
                continue
            for command in block.splitlines():
                arguments = shlex.split(command)[1:]
                if "--reviewed" in arguments:
                    save_review(tmp_path / "qa.csv", tmp_path / "qa.reviewed.csv")
                if "--model" in arguments:
                    arguments += ["--base-url", server.url]
                done = run_command(*arguments, cwd=tmp_path)
                printed += done.stdout + done.stderr
                assert done.returncode == 0, f"{command}\n{printed}"
