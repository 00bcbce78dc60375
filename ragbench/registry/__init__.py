"""Names to components: lazy tables, entry points, `python:` paths, declared options, nearest names.

A component declares its options once, as annotated keyword parameters:

    class BM25:
        def __init__(self, *, k1: Annotated[float, Option("Term saturation.", ge=0)] = 0.9): ...

Validation, the JSON Schema, `ragbench list` and the docs all read that declaration through
`declared_options`.
"""

from ragbench.registry.adapt import (
    FactoryArgs,
    OwnComponent,
    adapt,
    is_factory,
    make_object,
    option_parameters,
    plain_signature,
    shown,
    source_print,
)
from ragbench.registry.family import (
    PYTHON,
    Family,
    guarded_by,
    load_object,
    looking_in,
    nearest,
    summary_line,
)
from ragbench.registry.options import (
    REQUIRED,
    DeclaredOption,
    Mismatch,
    Option,
    check_values,
    checked,
    declared_options,
    describe_allowed,
)

__all__ = [
    "PYTHON",
    "REQUIRED",
    "DeclaredOption",
    "FactoryArgs",
    "Family",
    "Mismatch",
    "Option",
    "OwnComponent",
    "adapt",
    "check_values",
    "checked",
    "declared_options",
    "describe_allowed",
    "guarded_by",
    "is_factory",
    "load_object",
    "looking_in",
    "make_object",
    "nearest",
    "option_parameters",
    "plain_signature",
    "shown",
    "source_print",
    "summary_line",
]
