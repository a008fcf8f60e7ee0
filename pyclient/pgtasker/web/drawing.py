"""Geometry of what the dashboard draws: graphs in layers, bars in time. No state, no rule: only where things stand.

A graph of up to ``WHOLE`` nodes is drawn node by node. A larger one is folded first: layers are put together into at
most ``BANDS`` bands, and the steps of a band with the same handler become one box with a bar of their phases; what is
rare in a band shares a box. So no drawing has more than ``BANDS * (KINDS + 1)`` boxes, however many steps there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

WHOLE = 250
BANDS = 24
KINDS = 5

NODE_WIDTH = 164
NODE_HEIGHT = 46
GAP_ACROSS = 56
GAP_DOWN = 16
MARGIN = 16
_SWEEPS = 8
_BEND_HEIGHT = 2
_MOST_BENDS = 4000


@dataclass(slots=True)
class Box(Generic[K]):
    """A node where it stands, in pixels."""

    key: K
    x: float
    y: float
    width: float = NODE_WIDTH
    height: float = NODE_HEIGHT


@dataclass(slots=True)
class Line(Generic[K]):
    """An edge as an SVG path; ``weight`` is how many edges it stands for."""

    source: K
    target: K
    path: str
    weight: int = 1


@dataclass(slots=True)
class Drawing(Generic[K]):
    """Boxes and lines on a sheet of so many pixels."""

    boxes: list[Box[K]]
    lines: list[Line[K]]
    width: float
    height: float


def layers_of(nodes: Sequence[K], edges: Iterable[tuple[K, K]]) -> dict[K, int]:
    """Return for each node the length of the longest way to it; nodes of a cycle come behind what leads into it.

    Lifecycles have cycles: an edge that leads back to where a walk in order came from does not count.
    """
    follows: dict[K, list[K]] = defaultdict(list)
    waits: Counter[K] = Counter()
    known = set(nodes)
    for source, target in edges:
        if source in known and target in known and source != target:
            follows[source].append(target)
            waits[target] += 1
    layer = dict.fromkeys(nodes, 0)
    left = dict.fromkeys(nodes)
    ready = [node for node in nodes if not waits[node]]
    while left:
        if not ready:  # a cycle: go on with the first that is left
            ready = [next(iter(left))]
        upcoming: list[K] = []
        for node in ready:
            if node not in left:
                continue
            del left[node]
            for target in follows[node]:
                if target in left:
                    layer[target] = max(layer[target], layer[node] + 1)
                    waits[target] -= 1
                    if waits[target] <= 0:
                        upcoming.append(target)
        ready = upcoming
    return layer


@dataclass(frozen=True, slots=True)
class _Bend:
    """Where a long edge passes a column, so that it goes around the boxes there."""

    edge: int
    column: int


def draw(nodes: Sequence[K], edges: Sequence[tuple[K, K]], layer: Mapping[K, int] | None = None) -> Drawing[K]:
    """Lay a graph out from left to right: a column for each layer, few crossings, each box near its neighbours."""
    layer = layers_of(nodes, edges) if layer is None else layer
    number_of = {number: column for column, number in enumerate(sorted(set(layer.values())))}
    column_of: dict[Hashable, int] = {node: number_of[layer[node]] for node in nodes}
    columns: list[list[Hashable]] = [[] for _ in number_of]
    for node in nodes:
        columns[column_of[node]].append(node)
    counted = Counter((a, b) for a, b in edges if a in layer and b in layer and a != b)

    # Every edge becomes a chain of neighbours in columns that follow each other.
    chains: list[list[Hashable]] = []
    room = _MOST_BENDS
    for number, (source, target) in enumerate(counted):
        between = range(column_of[source] + 1, column_of[target])
        bends: list[Hashable] = [_Bend(number, column) for column in between] if len(between) <= room else []
        room -= len(bends)
        for bend, column in zip(bends, between, strict=False):
            columns[column].append(bend)
        chains.append([source, *bends, target])
    before: dict[Hashable, list[Hashable]] = defaultdict(list)
    after: dict[Hashable, list[Hashable]] = defaultdict(list)
    for (source, target), chain in zip(counted, chains, strict=True):
        if column_of[source] < column_of[target]:
            for left, right in pairwise(chain):
                before[right].append(left)
                after[left].append(right)

    _order(columns, before, after)
    top = _place(columns, before, after)
    step_across = NODE_WIDTH + GAP_ACROSS
    boxes = {node: Box(node, MARGIN + column_of[node] * step_across, top[node]) for node in nodes}
    lines = []
    for ((source, target), weight), chain in zip(counted.items(), chains, strict=True):
        by = [(MARGIN + bend.column * step_across, top[bend]) for bend in chain if isinstance(bend, _Bend)]
        lines.append(Line(source, target, _path(boxes[source], by, boxes[target]), weight))
    lowest = max((box.y + box.height for box in boxes.values()), default=NODE_HEIGHT)
    lowest = max([lowest, *(top[bend] for column in columns for bend in column if isinstance(bend, _Bend))])
    return Drawing(
        [boxes[node] for node in nodes],
        lines,
        2 * MARGIN + max(len(columns), 1) * step_across - GAP_ACROSS,
        lowest + MARGIN,
    )


def _order(
    columns: list[list[Hashable]],
    before: Mapping[Hashable, list[Hashable]],
    after: Mapping[Hashable, list[Hashable]],
) -> None:
    """Sort each column by the middle of the neighbours of each node, forth and back a few times."""
    place = {node: float(index) for column in columns for index, node in enumerate(column)}
    for sweep in range(_SWEEPS):
        beside = after if sweep % 2 else before
        for column in reversed(columns) if sweep % 2 else columns:
            wanted = {
                node: sum(place[other] for other in beside[node]) / len(beside[node])
                if beside.get(node)
                else place[node]
                for node in column
            }
            column.sort(key=lambda node: wanted[node])
            place.update((node, float(index)) for index, node in enumerate(column))


def _place(
    columns: list[list[Hashable]],
    before: Mapping[Hashable, list[Hashable]],
    after: Mapping[Hashable, list[Hashable]],
) -> dict[Hashable, float]:
    """Put each node as near to the height of its neighbours as the order in its column allows."""
    high = {node: _BEND_HEIGHT if isinstance(node, _Bend) else NODE_HEIGHT for column in columns for node in column}
    top: dict[Hashable, float] = {}
    for column in columns:
        at = 0.0
        for node in column:
            top[node] = at
            at += high[node] + GAP_DOWN
    for sweep in range(_SWEEPS):
        beside = after if sweep % 2 else before
        for column in reversed(columns) if sweep % 2 else columns:
            middles = [
                sum(top[other] + high[other] / 2 for other in beside[node]) / len(beside[node]) - high[node] / 2
                if beside.get(node)
                else top[node]
                for node in column
            ]
            for node, place in zip(column, _apart(middles, [high[node] + GAP_DOWN for node in column]), strict=True):
                top[node] = place
    highest = min(top.values(), default=0.0)
    return {node: round(place - highest + MARGIN, 1) for node, place in top.items()}


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones that keep order and distance (pool adjacent violators)."""
    offsets = [0.0, *accumulate(heights)]
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=False):
        mean, size = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [place + offset for place, offset in zip(flat, offsets, strict=False)]


def _path(source: Box[K], by: Sequence[tuple[float, float]], target: Box[K]) -> str:
    x, y = source.x + source.width, source.y + source.height / 2
    end_x, end_y = target.x, target.y + target.height / 2
    if end_x <= x:
        # back, or within a column: out of the bottom and around
        x, y, end_x = source.x + source.width / 2, source.y + source.height, target.x + target.width / 2
        end_y = target.y + target.height
        low = max(y, end_y) + GAP_DOWN
        return f"M{x:g} {y:g}C{x:g} {low:g} {end_x:g} {low:g} {end_x:g} {end_y:g}"
    path = f"M{x:g} {y:g}"
    for left, height in by:
        path += _curve(x, y, left, height) + f"H{left + NODE_WIDTH:g}"
        x, y = left + NODE_WIDTH, height
    return path + _curve(x, y, end_x, end_y)


def _curve(x: float, y: float, end_x: float, end_y: float) -> str:
    half = (x + end_x) / 2
    return f"C{half:g} {y:g} {half:g} {end_y:g} {end_x:g} {end_y:g}"


@dataclass(slots=True)
class Group:
    """Steps that are drawn as one box."""

    band: int
    handler: str
    first: int
    last: int
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """How many steps."""
        return sum(self.phases.values())


def fold(
    steps: Sequence[Mapping[str, object]], edges: Sequence[tuple[object, object]]
) -> tuple[dict[int, Group], list[tuple[int, int]], dict[int, int]]:
    """Fold the steps of a large task into groups: the groups, the edges between them, and the layer of each.

    Args:
        steps: rows with ``workflow_step_uuid``, ``handler``, ``phase``, ``ordinal``.
        edges: pairs of their uuids.
    """
    layer = layers_of([step["workflow_step_uuid"] for step in steps], edges)
    width = -(-(max(layer.values(), default=0) + 1) // BANDS)
    members: dict[int, Counter[str]] = defaultdict(Counter)
    for step in steps:
        members[layer[step["workflow_step_uuid"]] // width][str(step["handler"])] += 1
    common = {band: {name for name, _ in found.most_common(KINDS)} for band, found in members.items()}
    numbers: dict[tuple[int, str], int] = {}
    groups: dict[int, Group] = {}
    group_of: dict[object, int] = {}
    for step in steps:
        band, handler = layer[step["workflow_step_uuid"]] // width, str(step["handler"])
        ordinal = int(str(step["ordinal"]))
        name = handler if handler in common[band] else ""
        number = numbers.setdefault((band, name), len(numbers))
        group = groups.setdefault(number, Group(band, name, ordinal, ordinal))
        group.first, group.last = min(group.first, ordinal), max(group.last, ordinal)
        group.phases[str(step["phase"])] += 1
        group_of[step["workflow_step_uuid"]] = number
    band_of = {number: group.band for number, group in groups.items()}
    joined = [
        (group_of[source], group_of[target])
        for source, target in edges
        # what leads on within a band is inside of its boxes
        if source in group_of and target in group_of and band_of[group_of[source]] != band_of[group_of[target]]
    ]
    return groups, joined, band_of
