"""The oldest dependencies that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def lowest(pyproject: Path) -> list[str]:
    """Return `name==version` for each lower bound in pyproject.toml; the highest where a name has several."""
    bounds: dict[str, str] = {}
    for requirement in map(Requirement, _required(tomllib.loads(pyproject.read_text()))):
        for specifier in requirement.specifier:
            if specifier.operator == ">=":
                bounds[requirement.name] = max(bounds.get(requirement.name, ""), specifier.version, key=_numbers)
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]


def _required(pyproject: dict) -> Iterator[str]:
    project = pyproject["project"]
    yield from project["dependencies"]
    for extra in project["optional-dependencies"].values():
        yield from extra
    yield from pyproject["dependency-groups"]["test"]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part]
