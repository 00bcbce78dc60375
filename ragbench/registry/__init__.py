"""Names to components: lazy tables, entry points, `python:` paths, declared options, nearest names.

A component declares its options once, as annotated keyword parameters, each with its help:

    class BM25:
        def __init__(self, *, k1: Annotated[float, Option("Term saturation.", ge=0)] = 0.9): ...

Validation, the JSON Schema, `ragbench list` and the docs all read that declaration through
`declared_options`.
"""

from ragbench.registry.own_components import (
    FactoryArgs as FactoryArgs,
    OwnComponent as OwnComponent,
    adapt as adapt,
    has_method as has_method,
    is_factory as is_factory,
    make_object as make_object,
    option_parameters as option_parameters,
    plain_signature as plain_signature,
    quote as quote,
    source_print as source_print,
)
from ragbench.registry.family import (
    PYTHON as PYTHON,
    Family as Family,
    checking_imports as checking_imports,
    load_object as load_object,
    code_folders as code_folders,
    looking_in as looking_in,
    check_allowed as check_allowed,
    docstring as docstring,
    nearest as nearest,
    summary_line as summary_line,
)
from ragbench.registry.options import (
    REQUIRED as REQUIRED,
    Configured as Configured,
    DeclaredOption as DeclaredOption,
    Option as Option,
    OptionSet as OptionSet,
    check_values as check_values,
    check_repeat as check_repeat,
    checked as checked,
    dataclass_transform as dataclass_transform,
    declared_options as declared_options,
    default_options as default_options,
    describe_allowed as describe_allowed,
    options_of as options_of,
)
