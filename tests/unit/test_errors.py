"""The exception tree, drawn in the docstring and in fact."""

from __future__ import annotations

import re

from outbox import errors


def drawn() -> dict[str, str]:
    """Return the parent of each class in the docstring's drawing."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"    (?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)\b", line)
        if found is None:
            continue
        depth = len(found["indent"]) // 4
        del above[depth:]
        parents[found["name"]] = above[-1] if above else "Exception"
        above.append(found["name"])
    return parents


def test_the_docstring_draws_the_tree_as_it_is():
    real = {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}
    assert drawn() == real


def test_every_error_has_the_exit_code_of_its_kind():
    codes = {name: getattr(errors, name).exit_code for name in errors.__all__}
    assert codes["UsageError"] == codes["InvalidSettings"] == 2
    assert codes["DatabaseUnreachable"] == 3
    assert codes["SchemaMismatch"] == 4
    assert codes["RestoredCopy"] == codes["BulkStopped"] == 1
