"""Reading workflow files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgtasker import graphs


def test_yaml_is_1_2(tmp_path: Path) -> None:
    path = tmp_path / "graph.yml"
    path.write_text(
        "name: no\n"
        "steps:\n"
        "- name: on\n"
        "  arguments: {country: no, octal: 010, when: 2026-11-28, at: 2026-11-28T10:00:00Z,"
        " flag: true, nothing: null}\n"
    )
    graph = graphs.load(path).graph
    assert graph["name"] == "no"
    assert graph["steps"][0]["name"] == "on"
    assert graph["steps"][0]["arguments"] == {
        "country": "no",
        "octal": 10,
        "when": "2026-11-28",
        "at": "2026-11-28T10:00:00+00:00",
        "flag": True,
        "nothing": None,
    }


def test_a_file_without_a_known_suffix_is_told_by_its_content() -> None:
    assert graphs.parse('{"name": "x", "steps": []}').name == "x"
    assert graphs.parse("name: x\nsteps: []\n").name == "x"


def test_counts_and_handlers() -> None:
    file = graphs.parse(
        '{"name": "x", "version": "2.0.0", '
        '"steps": [{"name": "a"}, {"name": "b", "handler": "h", "depends_on": ["a"]}]}'
    )
    assert (file.step_count, file.edge_count, file.version) == (2, 1, "2.0.0")
    assert file.handlers == {"a", "h"}


@pytest.mark.parametrize("text", ['{"steps": 5}', '{"steps": [1, 2]}', '{"steps": [{"depends_on": 7}]}', "{}"])
def test_a_malformed_graph_is_left_to_the_database(text: str) -> None:
    file = graphs.parse(text)
    assert file.edge_count == 0
    assert file.handlers <= {"None"}


def test_wfcommons_joins_parents_and_children() -> None:
    document = {
        "name": "t",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": [
                    {"id": "a", "name": "same", "parents": [], "children": ["b", "c"]},
                    {"id": "b", "name": "same", "parents": ["a"], "children": []},
                    {"id": "c", "name": "same", "parents": [], "children": []},
                ]
            },
            "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 400, "command": {"program": "p"}}]},
        },
    }
    steps = {step["name"]: step for step in graphs.from_wfcommons(document)["steps"]}
    assert steps["a"]["arguments"] == {"seconds": 400.0, "program": "p"}
    assert steps["a"]["timeout_seconds"] == 800
    assert steps["b"]["depends_on"] == steps["c"]["depends_on"] == ["a"]
    assert steps["c"]["arguments"] == {"seconds": 0.0}


def test_every_trace_has_the_steps_and_edges_its_readme_states(shared: Path) -> None:
    folder = shared / "data" / "wfcommons"
    rows = re.findall(r"^\| (\S+) \| (\d+) \| (\d+) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == 13
    for name, steps, edges in rows:
        file = graphs.load(folder / f"{name}.json")
        assert file.format == "wfcommons"
        assert file.name == name
        assert (file.step_count, file.edge_count) == (int(steps), int(edges)), name
        assert file.handlers == {"sleep"}
