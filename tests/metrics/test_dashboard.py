"""The dashboard and the alerts ask for nothing that the endpoint does not give."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from tests.cli.conftest import Cli
from tests.kernel.engine import Engine

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "pgtasker.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
FUNCTIONS = {"sum", "max", "rate", "histogram_quantile", "by", "label_values", "absent"}

Given = dict[str, tuple[str, set[str]]]
"""Name of a sample -> type of its family, labels."""


def load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


def queries() -> list[str]:
    dashboard = load()
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return asked + [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]


def alerts() -> list[dict[str, Any]]:
    (group,) = YAML(typ="safe").load(ALERTS)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.fixture
def given(history: Engine) -> Given:
    """What is given by a database in which a little of everything happened."""
    found: Given = {}
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


def asks_for(query: str, given: Given) -> set[str]:
    """Which metrics a query names: they and the labels beside them are given."""
    names = set(re.findall(r"\bpgtasker_\w+", query))
    assert names and names <= set(given), query
    known = set.union(*(given[name][1] for name in names))
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\bpgtasker_\w+', "", query)
    words = set(re.findall(r"[a-z_]{2,}", bare)) - FUNCTIONS
    assert words <= known, query
    for name in names:
        # a rate is of what only grows, and nothing else is a rate
        grows = given[name][0] in ("counter", "histogram")
        assert bool(re.search(rf"rate\({name}\b", query)) == grows, query
    return names


def test_every_query_names_metrics_and_labels_that_are_given(given: Given) -> None:
    used = set().union(*(asks_for(query, given) for query in queries()))
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


# -- alerts


def test_every_alert_asks_for_what_is_given_and_says_where_to_look(given: Given, run_cli: Cli) -> None:
    rules = alerts()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        asks_for(rule["expr"], given)
        told = " ".join(rule["annotations"].values())
        kept = set(re.split(r"\W+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
        assert set(re.findall(r"\$labels\.(\w+)", told)) <= kept, rule["alert"]
        commands = re.findall(r"pgtasker ([a-z]+) ([a-z]+)", told)
        assert commands, rule["alert"]
        for command, word in commands:
            said = run_cli(command, "--help").stdout
            assert "─ Commands ─" not in said or re.search(rf"│ {word}  ", said), (command, word)


def test_alerts_compare_with_values_that_there_are(history: Engine) -> None:
    states = {(row["lifecycle"], row["state"]) for row in history.rows("select * from tasker.lifecycle_states")}
    told = history.one("select col_description('tasker.metrics_waits'::regclass, 1)")
    for rule in alerts():
        named = dict(re.findall(r'(\w+)="([^"]*)"', rule["expr"]))
        assert named.keys() <= {"lifecycle", "state", "waits_for"}
        assert "state" not in named or (named["lifecycle"], named["state"]) in states
        assert named.get("waits_for", "handler") in re.findall(r"(\w+): ", told)
