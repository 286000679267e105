"""What is installed: migrations, commands, types, and nothing heavy for whoever only imports outbox."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

FIRST = "0001_create_tables.sql"


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    """A wheel and an sdist, built from a copy so that the work tree stays as it is."""
    source = tmp_path_factory.mktemp("source") / "project"
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "dist", "*.egg-info")
    shutil.copytree(root, source, symlinks=True, ignore=ignored)
    target = tmp_path_factory.mktemp("built")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source], check=True, stdout=-3)
    return target


def test_the_wheel_has_the_migrations_and_the_marker_of_types(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"outbox/migrations/{FIRST}", "outbox/py.typed", "relays/py.typed", "relays/queries/claim.sql"} <= names
    assert not any(name.startswith("tests/") for name in names)


def test_the_sdist_has_the_migrations_that_its_wheel_is_built_with(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        assert any(name.endswith(f"/outbox/migrations/{FIRST}") for name in sdist.getnames())


def test_an_installed_wheel_reads_its_first_migration(built, tmp_path):
    wheel = next(built.glob("*.whl"))
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, wheel], check=True)
    code = "from outbox.migrate import migrations; print(migrations()[0].name, len(migrations()[0].sql) > 1000)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd="/", env={"PYTHONPATH": tmp_path}
    )
    assert done.stdout.split() == ["create_tables", "True"]


def test_an_editable_install_reads_its_first_migration(root):
    code = "import outbox, outbox.migrate as m; print(outbox.__file__, m.migrations()[0].name)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd="/")
    assert done.stdout.split() == [str(root / "outbox" / "__init__.py"), "create_tables"]


def test_importing_outbox_loads_nothing_heavy():
    code = (
        "import sys, outbox;"
        " heavy = {'aiohttp', 'aiosmtplib', 'typer', 'click', 'rich', 'tenacity', 'relays', 'httpx2'};"
        " print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["outbox", "outbox-relay"])
def test_both_commands_are_installed_and_say_their_version(command):
    from pathlib import Path

    program = Path(sys.executable).with_name(command)
    done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("outbox-relay ")
