"""Which handler takes which event, and what cannot be registered."""

from __future__ import annotations

import sys

import pytest

import relays
from outbox.errors import InvalidSettings
from relays.sinks.handler import HandlerSink, load_app
from relays.sinks.handler.registry import REGISTRY, Handler, Registry
from tests.handler_deliveries import registry


def handle(delivery):
    """Do nothing."""


def other(delivery):
    """Do nothing, too."""


@pytest.fixture(autouse=True)
def _clean_registry():
    REGISTRY.clear()
    yield
    REGISTRY.clear()


def found(made: Registry, event_type: str, destination: str = "work"):
    handler = made.find(destination, event_type)
    return None if handler is None else handler.function


@pytest.mark.parametrize(
    ("pattern", "matches", "other_types"),
    [
        ("order.paid", ["order.paid"], ["order", "order.paid.late", "order.paidx", "Order.paid"]),
        ("order.*", ["order.paid", "order.paid.late"], ["order", "orders.paid", "reorder.paid"]),
        ("*", ["order", "order.paid"], []),
    ],
)
def test_patterns_match_as_in_event_types(pattern, matches, other_types):
    made = registry((pattern, handle))
    assert all(found(made, event_type) is handle for event_type in matches)
    assert all(found(made, event_type) is None for event_type in other_types)


def test_the_most_specific_pattern_wins():
    functions = [lambda delivery, n=n: n for n in range(4)]
    made = registry(*zip(["*", "order.*", "order.item.*", "order.item.sold"], functions, strict=True))
    types = ["user.new", "order.paid", "order.item.lost", "order.item.sold"]
    assert [found(made, event_type) for event_type in types] == functions


def test_a_handler_of_the_destination_goes_first():
    made = registry(("order.paid", handle), ("*", other, {"destination": "search"}))
    assert found(made, "order.paid", "billing") is handle
    assert found(made, "order.paid", "search") is other
    assert made.served_types("billing") == {"order.paid"}
    assert made.served_types("search") == {"order.paid", "*"}


def test_the_decorator_registers_and_returns_the_function_itself():
    decorated = relays.handler("order.paid", "user.*")(handle)
    assert decorated is handle
    assert found(REGISTRY, "order.paid") is handle
    assert found(REGISTRY, "user.new") is handle
    assert HandlerSink().served_types("work") == {"order.paid", "user.*"}


@pytest.mark.parametrize(
    "pattern", ["", "order.", ".order", "order..paid", "*.paid", "order.*.x", "ord er", "order.p*", "é"]
)
def test_a_pattern_that_no_event_type_fits_is_refused(pattern):
    with pytest.raises(InvalidSettings, match="is no pattern"):
        relays.handler(pattern)(handle)


def test_two_handlers_for_one_pattern_are_refused_by_name():
    relays.handler("order.paid")(handle)
    with pytest.raises(InvalidSettings, match=r"two handlers for 'order.paid'.*handle.*other"):
        relays.handler("order.paid")(other)


def test_a_module_loaded_again_takes_its_place():
    relays.handler("order.paid")(handle)
    relays.handler("order.paid")(handle)
    assert found(REGISTRY, "order.paid") is handle


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda: None, {}),
        (lambda a, b: None, {}),
        (lambda a: None, {"transactional": True}),
        (lambda a, *, b: None, {}),
    ],
)
def test_a_function_with_other_arguments_is_refused_at_once(function, options):
    with pytest.raises(InvalidSettings, match="is called with"):
        relays.handler("order.paid", **options)(function)


def test_nothing_to_handle_is_refused():
    with pytest.raises(InvalidSettings, match="no event type"):
        relays.handler()(handle)


@pytest.mark.parametrize("batch", [0, -1, 10_001])
def test_a_batch_of_no_size_is_refused(batch):
    with pytest.raises(InvalidSettings, match="batch"):
        Registry().add(Handler(handle, batch=batch), ("*",))


def test_a_handler_destination_has_no_settings():
    HandlerSink.check({})
    with pytest.raises(InvalidSettings, match="url"):
        HandlerSink.check({"url": "x"})


# ------------------------------------------------------------------ --app


def test_an_app_is_found_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "shop_app.py").write_text("import relays\n@relays.handler('order.paid')\ndef f(delivery): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    load_app("shop_app")
    load_app("shop_app")
    assert REGISTRY.served_types() == {"order.paid"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"--app shop_missing_\d: there is no module 'shop_missing_\d' in .*"),
        ("import no_such_package", r"--app shop_missing_\d: it imports 'no_such_package'.*shop_missing_\d.py:1\)"),
        ("x = 1\nraise ValueError('boom')", r"ValueError at import.*shop_missing_\d.py:2\): boom"),
        ("def f(:", r"SyntaxError at import"),
        ("import relays\nrelays.handler('a b')(print)", r"'a b' is no pattern"),
        ("raise SystemExit(0)", r"SystemExit at import"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_told_in_one_line(tmp_path, monkeypatch, text, message, request):
    name = f"shop_missing_{request.node.callspec.indices['text']}"
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InvalidSettings, match=message) as caught:
        load_app(name)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing_is_named():
    with pytest.raises(InvalidSettings, match="there is no module 'no_such_app'"):
        load_app("no_such_app.handlers")
