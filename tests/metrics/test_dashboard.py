"""The dashboard asks for nothing that the endpoint does not give."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kernel.engine import Engine

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "pgtasker.json"
FUNCTIONS = {"sum", "max", "rate", "histogram_quantile", "by", "label_values"}


def load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


def queries() -> list[str]:
    dashboard = load()
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return asked + [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]


@pytest.fixture
def given(history: Engine) -> dict[str, tuple[str, set[str]]]:
    """Name of a sample -> type of its family, labels, in a database in which a little of everything happened."""
    found: dict[str, tuple[str, set[str]]] = {}
    labels: dict[str, set[str]] = defaultdict(set)
    with history.conn.transaction(force_rollback=True):
        history.rows("select tasker.set_limit('tool', 'press', 2)")
        history.task([{"name": "ship", "wait_for": {"event": "paid", "value": "7", "timeout_seconds": 600}}])
        text = history.one("select tasker.prometheus_metrics()")
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
            found[sample.name] = (family.type, labels[sample.name])
    return found


def test_every_query_names_metrics_and_labels_that_are_given(given: dict[str, tuple[str, set[str]]]) -> None:
    used = set()
    for query in queries():
        names = set(re.findall(r"\bpgtasker_\w+", query))
        assert names and names <= set(given), query
        used |= names
        known = set.union(*(given[name][1] for name in names))
        bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\bpgtasker_\w+', "", query)
        words = set(re.findall(r"[a-z_]{2,}", bare)) - FUNCTIONS
        assert words <= known, query
        for name in names:
            # a rate is of what only grows, and nothing else is a rate
            grows = given[name][0] in ("counter", "histogram")
            assert bool(re.search(rf"rate\({name}\b", query)) == grows, query
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert families == {re.sub(r"_(bucket|sum|count)$", "", name) for name in given}, "everything given is shown"


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in load()["panels"]:
        for target in panel["targets"]:
            kept = set(re.split(r"\W+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, target["expr"]


def test_panels_lie_side_by_side() -> None:
    panels = load()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        assert (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )  # fmt: skip
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
