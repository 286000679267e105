"""`outbox apply`: all of a file or nothing of it."""

from __future__ import annotations

from tests.commands import outbox
from tests.queues import count

FILE = """
[destinations.shop]
sink = "webhook"
events = ["order.*"]
url = "https://shop.example/hooks/SECRET2"
secret = "whsec_U0VDUkVUNVNFQ1JFVDVTRUNSRVQ1U0VDUkVUNQ=="
[destinations.shop.policy]
max_attempts = 3
[destinations.stock]
sink = "handler"
events = ["*"]
"""


def names(database) -> list[str]:
    return [one["name"] for one in outbox("destinations", "list", "--json", dsn=database.dsn).json]


def test_a_file_is_applied_shown_and_the_second_time_nothing_changes(database, tmp_path):
    path = tmp_path / "outbox.toml"
    path.write_text(FILE)
    dry = outbox("apply", str(path), "--dry-run", dsn=database.dsn)
    assert dry.code == 0, dry.output
    assert "+ shop" in dry.stdout
    assert names(database) == []
    done = outbox("apply", str(path), dsn=database.dsn)
    assert (done.code, done.stdout) == (0, dry.stdout)
    assert names(database) == ["shop", "stock"]
    again = outbox("apply", str(path), dsn=database.dsn)
    assert (again.code, again.stdout, again.stderr) == (0, "", "nothing to change\n")


def test_a_change_shows_what_was_and_what_will_be_without_secrets(database):
    outbox("apply", "-", dsn=database.dsn, stdin=FILE)
    changed = FILE.replace("max_attempts = 3", "max_attempts = 5").replace("U0VDUkVUN", "AAAAAAAAA")
    done = outbox("apply", "-", dsn=database.dsn, stdin=changed)
    assert "~ shop" in done.stdout
    assert "policy.max_attempts = 5, was 3" in done.stdout
    assert "settings.secret = [redacted], was [redacted]" in done.stdout
    assert "SECRET" not in done.output
    assert "whsec_" not in done.output


def test_what_the_file_does_not_name_is_removed_only_with_prune_and_yes(database):
    outbox("apply", "-", dsn=database.dsn, stdin=FILE)
    only_shop = FILE.partition("[destinations.stock]")[0]
    kept = outbox("apply", "-", dsn=database.dsn, stdin=only_shop)
    assert "kept without --prune: stock" in kept.stderr
    assert names(database) == ["shop", "stock"]
    refused = outbox("apply", "-", "--prune", dsn=database.dsn, stdin=only_shop)
    assert (refused.code, "add --yes to remove stock" in refused.stderr) == (2, True)
    removed = outbox("apply", "-", "--prune", "--yes", "--json", dsn=database.dsn, stdin=only_shop)
    assert [(c["verb"], c["name"]) for c in removed.json["changes"]] == [("keep", "shop"), ("remove", "stock")]
    assert names(database) == ["shop"]


def test_one_wrong_destination_stops_all_of_it(database):
    refused = outbox("apply", "-", dsn=database.dsn, stdin=FILE + "[destinations.bad]\nsink = 'pigeon'\n")
    assert (refused.code, "-: destinations.bad: no sink 'pigeon'" in refused.stderr) == (2, True)
    with database.connect() as connection:
        assert count(connection, "destinations") == 0


def test_a_missing_file_is_said_in_one_line(database):
    refused = outbox("apply", "nowhere.toml", dsn=database.dsn)
    assert (refused.code, refused.stderr) == (2, "outbox: cannot read nowhere.toml: No such file or directory\n")
