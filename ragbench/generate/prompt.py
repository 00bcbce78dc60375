"""Prompts of generators: a file with a system text and a template, or a template alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.llm import Message
from ragbench.registry import nearest
from ragbench.signature import fingerprint
from ragbench.types import Document, Turn

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).with_name("prompts")
_NAMES = ("question", "passages")
_FIELDS = ("number", "id", "title", "text")
_ALLOWED_NAMES = f"{{{{ question }}}}, {{{{ passages }}}}, each with {', '.join(_FIELDS)}"
_KEYS = ("system", "user")
_ALLOWED_FILE = "system: text, user: a template with {{ question }}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told, for every question alike."""

    system: str
    """What comes first; empty for none."""
    user: str
    """The template of the question, as the file has it."""
    template: Template
    """The same, ready."""

    @property
    def hash(self) -> str:
        """A short hash of both texts; it moves when a word of them does."""
        return fingerprint([self.system, self.user])

    def messages(
        self, question: str, passages: Sequence[Document], turns: Sequence[Turn] = ()
    ) -> tuple[Message, ...]:
        """Return the conversation that asks a question; no value in it is read as a template.

        What was said before the question, by user and assistant, stands before it.
        """
        listed = [
            {"number": number, "id": d.id, "title": d.title, "text": d.text}
            for number, d in enumerate(passages, start=1)
        ]
        user = self.template.render(question=question, passages=listed).strip()
        first = (Message("system", self.system),) if self.system else ()
        said = [Message(t.role, t.text) for t in turns if t.role != "system" and t.text]
        return (*first, *said, Message("user", user))

    def text(self, question: str, passages: Sequence[Document]) -> str:
        """Return the conversation as a person reads it."""
        turns = self.messages(question, passages)
        return "\n\n".join(f"{turn.role}:\n{turn.content}" for turn in turns)


def load_prompt(source: str, system: str | None = None, owner: str = "prompt") -> Prompt:
    """Read a prompt: a built-in name, a YAML file with `system` and `user`, or a .j2 template.

    A given `system` takes the place of the file's; `owner` is whose option it is, for messages.
    """
    built_in = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    path = _FOLDER / f"{source}.yaml" if source in built_in else Path(source)
    if not path.is_file():
        allowed = f"{', '.join(built_in)}, or a file: .yaml with system and user, or .j2"
        raise OptionError(owner, "prompt", source, allowed, nearest(source, built_in))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as a prompt: {error}", file=path) from None
    told, user = ("", text) if path.suffix == ".j2" else _parts(text, path)
    return Prompt(told.strip() if system is None else system.strip(), user, _compiled(user, path))


def _parts(text: str, path: Path) -> tuple[str, str]:
    try:
        content = load_yaml(text, typed=True)
    except YamlError as error:
        found = f"no YAML: {error.problem}"
        raise DataError(found, file=path, line=error.line, allowed=_ALLOWED_FILE) from None
    if not isinstance(content, dict) or not isinstance(content.get("user"), str):
        raise DataError("no prompt: it has no text 'user'", file=path, allowed=_ALLOWED_FILE)
    for key, value in content.items():
        if key not in _KEYS:
            close = nearest(str(key), _KEYS)
            raise DataError(f"unknown key '{key}'", file=path, allowed=_ALLOWED_FILE, nearest=close)
        if not isinstance(value, str):
            raise DataError(f"'{key}' is not text", file=path, allowed=_ALLOWED_FILE)
    return content.get("system", ""), content["user"]


def _compiled(user: str, path: Path) -> Template:
    """The template, checked: it asks the question, and every name is one that it gets."""
    from jinja2 import StrictUndefined, TemplateError, meta
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        autoescape=False,  # prompts are plain text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    used: set[str] = set()
    try:
        used = meta.find_undeclared_variables(environment.parse(user))
        template = environment.from_string(user)
        template.render(question="", passages=[dict.fromkeys(_FIELDS, "")])
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        unknown = next((name for name in sorted(used) if name not in _NAMES), None)
        close = None if unknown is None else nearest(unknown, _NAMES)
        raise DataError(
            str(error).rstrip("."), file=path, line=line, allowed=_ALLOWED_NAMES, nearest=close
        ) from None
    if "question" not in used:
        raise DataError("the template does not ask the question", file=path, allowed=_ALLOWED_NAMES)
    return template
