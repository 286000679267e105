"""Loads the modules that register handlers (`outbox-relay --app module`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from traceback import extract_tb

from outbox.errors import InvalidSettings

__all__ = ["load_app"]


def load_app(name: str) -> None:
    """Import the module `name`, from the working directory, too, so that its handlers register themselves.

    Raises:
        InvalidSettings: there is no such module, or it cannot be imported; says where it failed.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidSettings(_missing(name, error)) from error
    except InvalidSettings:
        raise
    except (Exception, SystemExit) as error:  # a module that calls sys.exit() must not end the relay with its code
        said = " ".join(str(error).split())
        raise InvalidSettings(f"--app {name}: {type(error).__name__} at import{_place(error)}: {said}") from error


def _missing(name: str, error: ModuleNotFoundError) -> str:
    if error.name is not None and f"{name}.".startswith(f"{error.name}."):
        return f"--app {name}: there is no module {error.name!r} in {Path.cwd()} or on the Python path"
    return f"--app {name}: it imports {error.name!r}, which is not installed here{_place(error)}"


def _place(error: BaseException) -> str:
    frames = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
