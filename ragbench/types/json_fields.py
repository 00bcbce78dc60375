"""Base class of records, and declarations of their fields: optional keys, flat records, prose.

`records/codec.py` writes and reads records. Their base stands here, as some of them belong to
`ragbench.types`: `Usage` is a part of stored answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import field

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[type], type]:
        """Return a decorator that changes nothing: only type checkers read the options."""
        return lambda cls: cls


class MayHoldSecrets:
    """Mark, inside `Annotated`, of texts from outside that may hold secrets, such as errors.

    The class itself is the mark, as in `Prose`; it has no instances.
    """


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a field, as `Annotated[type, Meaning("...")]`; the JSON Schema shows it."""

    text: str


# Text that may hold a secret, such as the text of an error; `cleaned` masks it before writing.
Prose = Annotated[str, MayHoldSecrets]

# Default of an optional field for which null and an absent key differ: null means "not known", an
# absent key "does not apply"
ABSENT: Any = ()


def optional(default: Any = None) -> Any:
    """Declare a field that is left out of a file if it has its default value.

    An empty dictionary as default gives each record its own one. Without `default` it is None.
    """
    return field(default_factory=dict) if default == {} else field(default=default)


class _FlatDefault:
    """Default of a field that `flat` declares."""

    def __init__(self, value: object) -> None:
        self.value = value


def flat(default: Record | None = None) -> Any:
    """Declare a field with a record whose keys stand in the object itself.

    Args:
        default: Value if the object has none of its keys; None is written without keys.

    Example:
        >>> from ragbench.records.codec import to_json
        >>> from ragbench.records.gate import Facts, Decision
        >>> gate = Decision(gate="g", system="s", verdict="pass", why="?", facts=Facts(n=3))
        >>> to_json(gate)
        {'gate': 'g', 'system': 's', 'verdict': 'pass', 'why': '?', 'line': None, 'n': 3}
    """
    return _FlatDefault(default)


class _RecordType(msgspec.StructMeta):
    """Metaclass that makes every record a frozen struct with the defaults of its declarations."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        flat_fields = []
        for key in namespace.get("__annotations__", {}):
            default = namespace.get(key, msgspec.NODEFAULT)
            if isinstance(default, _FlatDefault):
                flat_fields.append(key)
                default = default.value
            # msgspec leaves out a field that has its plain default, but writes that of a function
            if default is not msgspec.NODEFAULT and type(default) is not _FIELD:
                namespace[key] = field(default_factory=_returns(default))
        config: dict[str, Any] = {
            "frozen": True,
            "kw_only": True,
            "omit_defaults": True,
            "rename": _key_of,
        }
        cls: Any = super().__new__(mcs, name, bases, namespace, **(config | options))
        cls._flat_fields = (*getattr(cls, "_flat_fields", ()), *flat_fields)
        return cls


_FIELD = type(field())


def _key_of(name: str) -> str:
    """Return the key of a field; a name that is a word of Python ends with a `_`."""
    return name.rstrip("_")


def _returns(default: Any) -> Callable[[], Any]:
    """Return a function that returns a default; of a dictionary a new one in each call."""
    return default.copy if isinstance(default, dict) else lambda: default


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Record(msgspec.Struct, metaclass=_RecordType, frozen=True):
    """Base of the objects of JSON files; `codec.to_json` writes and `codec.from_json` reads them.

    A subclass only lists its fields, with the names and in the order of the keys of the file: it is
    a frozen struct of msgspec with keyword-only fields. Its constructor checks no types; reading
    does. A field without a default must be in the file; `optional` fields are left out of a written
    file if they have their default. Unknown keys are ignored. `Meaning` beside the type of a field
    is its text in the JSON Schema of the file.
    """

    # names of the fields that `flat` declares
    _flat_fields: ClassVar[tuple[str, ...]]
