"""Where boxes and bars stand: nothing overlaps, edges lead forward, large graphs are folded without losing a step."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtasker.web import drawing
from pgtasker.web.dashboard import duration

EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=90)


@given(EDGES)
def test_boxes_never_overlap_and_stand_on_the_sheet(edges: list[tuple[int, int]]) -> None:
    """Cycles, loops and doubled edges included: lifecycles have them."""
    drawn = drawing.draw(list(range(31)), edges)
    assert [box.key for box in drawn.boxes] == list(range(31))
    for box in drawn.boxes:
        assert 0 <= box.x <= drawn.width - box.width and 0 <= box.y <= drawn.height - box.height
        for other in drawn.boxes:
            if other is not box and other.x == box.x:
                assert abs(other.y - box.y) >= box.height
    assert {(line.source, line.target) for line in drawn.lines} == {(a, b) for a, b in edges if a != b}


@given(EDGES)
def test_without_cycles_every_edge_leads_to_the_right(edges: list[tuple[int, int]]) -> None:
    forward = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    drawn = drawing.draw(list(range(31)), forward)
    at = {box.key: box.x for box in drawn.boxes}
    assert all(at[source] < at[target] for source, target in forward)


def test_a_layer_is_the_longest_way() -> None:
    layers = drawing.layers_of("abcd", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d")])
    assert layers == {"a": 0, "b": 1, "c": 2, "d": 3}


@pytest.mark.parametrize("shape", ["chain", "wide", "layers"])
def test_a_large_graph_is_folded_and_no_step_is_lost(shape: str) -> None:
    count = 5000
    edges = {
        "chain": [(n, n + 1) for n in range(count - 1)],
        "wide": [(0, n) for n in range(1, count)],
        "layers": [(n, n + 50) for n in range(count - 50)],
    }[shape]
    steps = [
        {"workflow_step_uuid": n, "handler": f"handler-{n % 12}", "phase": ("succeeded", "failed")[n % 2], "ordinal": n + 1}
        for n in range(count)
    ]  # fmt: skip
    groups, joined, layer = drawing.fold(steps, edges)
    assert sum((group.phases for group in groups.values()), Counter()) == {"succeeded": count / 2, "failed": count / 2}
    drawn = drawing.draw(list(groups), joined, layer)
    assert 1 < len(drawn.boxes) <= drawing.BANDS * (drawing.KINDS + 1)
    assert all(group.first <= group.last for group in groups.values())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0, "0 s"), (0.0123, "12 ms"), (1, "1 s"), (1.26, "1.3 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"),
        (86400 * 2 + 3700, "2 d 1 h"), (-5, "-5 s"), (dt.timedelta(minutes=90), "1 h 30 min"), (None, ""),
    ],
)  # fmt: skip
def test_durations_are_said_in_at_most_two_units(value: float | dt.timedelta | None, says: str) -> None:
    assert duration(value) == says
