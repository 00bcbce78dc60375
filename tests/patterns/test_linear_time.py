"""Each pattern of the package takes steps in proportion to the length of any text.

Steps are counted, not seconds. Patterns and hostile texts are collected by rule: a pattern that is
added to the package is tested without being named here.
"""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import cli, llm, secrets
from ragbench.llm import completions
from ragbench.questions import checks
from ragbench.score.judge import markers
from ragbench.score.judge.methods import templates
from ragbench.text import refusals, tokenize
from ragbench.types import spans
from tests.patterns.hostile import HostileText, has_open_repeat, hostile_texts
from tests.patterns.machine import Machine, TooManySteps
from tests.patterns.places import open_places, pattern_uses

pytestmark = pytest.mark.slow
