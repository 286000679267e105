"""Prometheus' text format, as its own parser reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from relays.exposition import Family, Histogram, histogram_family, render


@given(
    st.text(alphabet=st.characters(blacklist_categories=["Cs", "Cc"]) | st.sampled_from('\\"\n')),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_every_label_and_value_comes_back(label, value):
    family = Family("outbox_x", "gauge", 'a "help" with a \\ and a\nline')
    family.add(value, destination=label)
    [read] = text_string_to_metric_families(render([family]))
    [sample] = read.samples
    assert (sample.labels, sample.value) == ({"destination": label}, value)


def test_buckets_are_cumulative_and_end_with_all():
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(seconds)
    [read] = text_string_to_metric_families(render([histogram_family("outbox_s", "Seconds.", {(): histogram})]))
    values = {(sample.name, sample.labels.get("le")): sample.value for sample in read.samples}
    assert values == {
        ("outbox_s_bucket", "0.1"): 2,
        ("outbox_s_bucket", "1"): 3,
        ("outbox_s_bucket", "+Inf"): 4,
        ("outbox_s_sum", None): 3.65,
        ("outbox_s_count", None): 4,
    }
