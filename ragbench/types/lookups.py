"""Look-ups by name, id or position, parts of mappings and records, and the types of elements."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Protocol, TypeGuard, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Result = TypeVar("_Result")
_InKey = TypeVar("_InKey", contravariant=True)
_OutValue = TypeVar("_OutValue", covariant=True)


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


class _HasItems(Protocol[_InKey, _OutValue]):
    def __getitem__(self, key: _InKey, /) -> _OutValue: ...


_NameItem = TypeVar("_NameItem", bound=_HasName)
_IdItem = TypeVar("_IdItem", bound=_HasId)


def item_names(items: Iterable[_HasName]) -> list[str]:
    """Return the names of the items."""
    return [item.name for item in items]


def index_by_name(items: Iterable[_NameItem]) -> dict[str, _NameItem]:
    """Return the items by their names; of equal names the last item counts."""
    return {item.name: item for item in items}


def index_by_id(items: Iterable[_IdItem]) -> dict[str, _IdItem]:
    """Return the items by their ids; of equal ids the last item counts."""
    return {item.id: item for item in items}


def index_positions(keys: Iterable[_Key]) -> dict[_Key, int]:
    """Return the position of each key, from 0; of equal keys the last position counts."""
    return {key: position for position, key in enumerate(keys)}


def take_items(items: _HasItems[_Key, _Value], keys: Iterable[_Key]) -> list[_Value]:
    """Return the items at some positions of a sequence, or under some keys of a mapping.

    Example:
        >>> take_items(["q1", "q2", "q3"], [2, 0])
        ['q3', 'q1']
    """
    return [items[key] for key in keys]


def group_by(items: Iterable[_Value], key_of: Callable[[_Value], _Key]) -> dict[_Key, list[_Value]]:
    """Return the items by their key, in the order of first occurrence."""
    groups: dict[_Key, list[_Value]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return groups


def select_keys(mapping: Mapping[_Key, _Value], keys: Container[object]) -> dict[_Key, _Value]:
    """Return the entries whose key is among `keys`, in the order of the mapping."""
    return {key: value for key, value in mapping.items() if key in keys}


def select_in_order(mapping: Mapping[_Key, _Value], keys: Iterable[_Key]) -> dict[_Key, _Value]:
    """Return the entries of the mapping whose key is among `keys`, in the order of `keys`."""
    return {key: mapping[key] for key in keys if key in mapping}


def omit_keys(mapping: Mapping[_Key, _Value], keys: Container[object]) -> dict[_Key, _Value]:
    """Return the entries whose key is not among `keys`, in the order of the mapping."""
    return {key: value for key, value in mapping.items() if key not in keys}


def omit_empty(mapping: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
    """Return the entries whose value is true, so neither None nor empty nor 0."""
    return {key: value for key, value in mapping.items() if value}


def omit_none(mapping: Mapping[_Key, _Value | None]) -> dict[_Key, _Value]:
    """Return the entries whose value is not None."""
    return {key: value for key, value in mapping.items() if value is not None}


def all_are(values: Iterable[object], kinds: type | tuple[type, ...]) -> bool:
    """Return True if all values have one of the types; True without values."""
    return all(isinstance(value, kinds) for value in values)


def is_list_of(value: object, kind: type) -> TypeGuard[list[Any]]:
    """Return True for a list whose elements all have a type; True for an empty list."""
    return isinstance(value, list) and all_are(value, kind)


def map_values(
    function: Callable[[_Value], _Result], mapping: Mapping[_Key, _Value]
) -> dict[_Key, _Result]:
    """Return the result of a function for each value, by the key of the value."""
    return {key: function(value) for key, value in mapping.items()}


def attributes_of(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of an object by their names, in the order of `names`."""
    return {name: getattr(record, name) for name in names}


def pick(mapping: Mapping[str, Any], *keys: str) -> Any:
    """Return the value of the first of `keys` whose value is not None; None if all lack one."""
    for key in keys:
        if mapping.get(key) is not None:
            return mapping[key]
    return None


def find_key(mapping: Container[object], keys: Iterable[_Key]) -> _Key | None:
    """Return the first of `keys` that the mapping has; None if it has none of them."""
    for key in keys:
        if key in mapping:
            return key
    return None
