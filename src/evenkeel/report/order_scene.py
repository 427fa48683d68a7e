"""Runs whose tasks come in different orders, in one scene. A report separates them; Figure 1 compares them."""

import json
from collections import Counter
from dataclasses import replace
from functools import cached_property
from itertools import product

from evenkeel.report.scene import Scene
from evenkeel.report.svg import printable
from evenkeel.results.groups import Group, groups, own_code
from evenkeel.results.labels import APART
from evenkeel.results.run_files import Results

ORDER = ("tasks", "order")  # the settings of a scenario that determine the order
MOST = 3  # classes per task that a label names


class Orders(Scene):
    """A scene whose labels include the order of tasks: 'ER: {ship, truck} then {frog, horse}'."""

    @cached_property
    def changed(self) -> list[int]:
        """Return the positions of the tasks that are not the same in all runs."""
        return [place for place in range(self.tasks) if len({frozenset(_classes(run, place)) for run in self.runs}) > 1]

    @cached_property
    def by_order(self) -> list[list[Group]]:
        """Return the groups of each order. Those that differ only in order and name share their shortest name."""
        orders: dict[str, list[Results]] = {}
        for run in self.runs:
            orders.setdefault(self._order_text(run, most=None), []).append(run)
        short = [self._order_text(runs[0], MOST) for runs in orders.values()]
        texts = short if len(set(short)) == len(short) else list(orders)
        grouped = [groups(runs) for runs in orders.values()]
        names: dict[str, str] = {}
        for group in sorted((group for members in grouped for group in members), key=lambda group: len(group.label)):
            names.setdefault(_without_order(group), group.label)
        uses = Counter[str]()

        def relabelled(group: Group, order: str) -> Group:
            label = f"{names[_without_order(group)]}: {order}"
            uses[label] += 1  # more than once where two streams of one's own differ only in name
            return replace(group, label=f"{label} #{uses[label]}" if uses[label] > 1 else label)

        return [[relabelled(group, order) for group in members] for order, members in zip(texts, grouped, strict=True)]

    def _order_text(self, run: Results, most: int | None) -> str:
        return " then ".join(class_set(run, place, most) for place in self.changed)

    @cached_property
    def groups(self) -> list[Group]:
        return [group for members in self.by_order for group in members]

    @property
    def swaps(self) -> list[tuple[Group, Group]]:
        """Return pairs of groups with finished runs, one of each order, if there are exactly two orders."""
        if len(self.by_order) != 2:
            return []
        both = [(one, other) for one, other in product(*self.by_order) if _without_order(one) == _without_order(other)]
        done = self.finished
        return [
            (done[one.label], done[other.label]) for one, other in both if one.label in done and other.label in done
        ]


def _without_order(group: Group) -> str:
    """Return what the runs of two orders must share to be compared."""
    first = group.runs[0]
    config = first.started.config
    scenario = {name: value for name, value in (config["scenario"] or {}).items() if name not in ORDER}
    rest = {name: value for name, value in config.items() if name not in ("name", *APART)}
    return json.dumps([{**rest, "scenario": scenario}, own_code(first)], sort_keys=True)


def class_set(run: Results, place: int, most: int | None = MOST) -> str:
    """Return the classes of a task as '{ship, truck}'; of more than `most`, only the first ones."""
    names = _classes(run, place)
    if most is not None and len(names) > most:
        names = [*names[: most - 1], "…"]
    return f"{{{', '.join(printable(name) for name in names)}}}"


def _classes(run: Results, place: int) -> list[str]:
    """Return the names of the classes of a task, or their numbers if they have no names."""
    names = run.started.data.get("classes")
    return [str(names[index] if names else index) for index in run.started.tasks[place].get("classes") or ()]
