"""What deploy/ ships can be read, and speaks of metrics, options and commands that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from relays.settings import RelaySettings


def names_served(root) -> set[str]:
    return set(re.findall(r'"(outbox_\w+)"', (root / "relays" / "metrics.py").read_text()))


@pytest.mark.parametrize("pattern", ["**/*.yaml", "**/*.json", "**/*.toml"])
def test_every_file_can_be_read(root, pattern):
    readers = {
        ".yaml": lambda text: list(yaml.safe_load_all(text)),
        ".json": json.loads,
        ".toml": tomllib.loads,
    }
    found = sorted((root / "deploy").glob(pattern))
    assert found
    for path in found:
        assert readers[path.suffix](path.read_text())


def test_alerts_and_dashboard_use_metrics_that_relays_serve(root):
    text = (root / "deploy/prometheus/alerts.yaml").read_text() + (
        root / "deploy/grafana/outbox-relay.json"
    ).read_text()
    used = set(re.findall(r"\b(outbox_[a-z_]+?)(?:_bucket|_sum|_count)?(?=[{\[ )/\"])", text))
    assert used
    unknown = {name for name in used if not any(served.startswith(name) for served in names_served(root))}
    assert unknown - {"outbox_relay"} == set()


def test_relays_are_started_with_options_that_exist(root):
    helped = subprocess.run(
        [sys.executable, "-m", "relays", "--help"], check=True, capture_output=True, text=True
    ).stdout
    for path in ("deploy/compose.yaml", "deploy/kubernetes/relay.yaml", "deploy/systemd/outbox-relay.service"):
        lines = [line for line in (root / path).read_text().splitlines() if not line.strip().startswith("#")]
        options = {option for line in lines if "--" in line for option in re.findall(r"(--[a-z][a-z-]+)", line)}
        relay_options = {option for option in options if option in helped}
        assert {"--metrics", "--grace", "--log-format"} <= relay_options, path


def test_containers_are_not_root_and_stop_after_the_grace(root):
    [deployment] = yaml.safe_load_all((root / "deploy/kubernetes/relay.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["terminationGracePeriodSeconds"] > RelaySettings(dsn="").grace
    assert "\nUSER 10001" in (root / "deploy/Dockerfile").read_text()
