"""Without a database driver the commands say so in one line; `import outbox` needs none."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['psycopg'] = None\n"


def python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(("package", "command"), [("outbox", "outbox"), ("relays", "outbox-relay")])
def test_a_missing_driver_is_one_line_with_the_remedy(package, command):
    done = python(f"{WITHOUT}from {package}.__main__ import main\nmain()", "--help")
    assert done.returncode == 2
    assert done.stderr == f"{command}: psycopg finds no libpq here; run pip install 'outbox-relay[binary]'\n"
    assert done.stdout == ""


def test_what_applications_import_needs_no_driver_until_it_is_used():
    done = python(f"{WITHOUT}import outbox, outbox.webhooks\nprint('imported')")
    assert done.stdout == "imported\n", done.stderr
