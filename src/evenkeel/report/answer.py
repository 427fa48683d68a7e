"""The answer of a report in a sentence, a picture and a number."""

from collections import Counter
from collections.abc import Sequence

from evenkeel.report.bias import tilt_at_a_glance
from evenkeel.report.elements import BigNumber, Chart, Charts, minus, number
from evenkeel.report.figures import gains
from evenkeel.report.scene import Scene
from evenkeel.results.groups import ENOUGH, Estimate, Group, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.significance import LEVEL, Comparison, compare

Pair = tuple[Group, Group]
NO_CHANGE = "no significant change"


def answer(scene: Scene) -> list[Charts | BigNumber]:
    """Return the picture of the tilt, and the gain by an adaptor with its interval, or else the best result."""
    shown: list[Charts | BigNumber] = [*([picture] if (picture := tilt_at_a_glance(scene)) else [])]
    measure = next(iter(scene.headline or scene.measures), None)
    if measure is None or not scene.finished:
        return shown
    changes = _changes(scene.pairs, measure)
    if len(changes) > 1:
        return [*shown, _gains(measure, changes)]
    for (without, with_), change in changes:
        about = f"{_heading(measure)}: gain of {with_.label} over {without.label}, paired by seed"
        return [*shown, BigNumber(number(change, signed=True), f"{about}; {_spread(change)}")]
    group, best, _ = _best(scene, measure)
    return [*shown, BigNumber(number(best), f"{_heading(measure)} of {group.label}; {_spread(best)}")]


def _heading(measure: Measure) -> str:
    better = {True: ", higher is better", False: ", lower is better", None: ""}[measure.higher_is_better]
    return f"{measure.title} (percent{better})"


def _spread(estimate: Estimate) -> str:
    seeds = seeds_text([estimate.n])
    return f"mean ± half of the 95% interval over {seeds}" if estimate.half is not None else f"{seeds}, no interval"


def _changes(sides: Sequence[Pair], measure: Measure) -> list[tuple[Pair, Estimate]]:
    """Return the pairs that have finished seeds in common, each with its gain."""
    return [(pair, change) for pair in sides if (change := gain(measure, paired(*pair)))]


def _gains(measure: Measure, changes: Sequence[tuple[Pair, Estimate]]) -> Charts:
    rows = {with_.label: change for (_, with_), change in changes}
    better = {True: " To the right of 0 is better.", False: " To the left of 0 is better.", None: ""}
    caption = (
        f"Change in {measure.title} by the adaptor, in points, paired by seed. Lines: its 95% interval. "
        f"Fewer than {ENOUGH} seeds have no interval: hollow, with the values as ticks."
        f"{better[measure.higher_is_better]}"
    )
    return Charts(caption, [Chart(f"Gain in {measure.title}", gains(rows, f"change in {measure.title} (points)"))])


def findings(scene: Scene, measures: Sequence[Measure]) -> list[str]:
    """Return the outcome in plain words: what each adaptor changed in these measures, or else which group is best."""
    measures = measures or scene.measures[:1]
    if scene.pairs and measures:
        adaptors = dict.fromkeys(with_.adaptor for _, with_ in scene.pairs)
        by_adaptor = ([pair for pair in scene.pairs if pair[1].adaptor == adaptor] for adaptor in adaptors)
        return [_finding(*them[0], measures) if len(them) == 1 else _overall(them, measures[0]) for them in by_adaptor]
    if not scene.finished:
        return ["No run is finished yet, so there is nothing to compare; the figures show the progress of each."]
    if not scene.measures:
        return ["These runs have no measure to compare: nothing was tested."]
    measure = scene.measures[0]
    group, best, among = _best(scene, measure)
    sentence = f"{group.label} reached {measure.title} {number(best)} ({seeds_text([best.n])})"
    if among > 1 and not group.is_bound:
        sentence += f", the best mean of {among}; no two of them differ only in the adaptor"
    return [sentence + "."]


def _best(scene: Scene, measure: Measure) -> tuple[Group, Estimate, int]:
    """Return the group with the best mean, that mean, and the number of groups it was chosen from, without bounds."""
    among = [group for group in scene.finished.values() if not group.is_bound] or list(scene.finished.values())
    reached = [(group, estimate) for group in among if (estimate := group.estimate(measure))]
    group, best = max(reached, key=lambda each: each[1].mean * (1 if measure.higher_is_better else -1))
    return group, best, len(reached)


def _finding(without: Group, with_: Group, measures: Sequence[Measure]) -> str:
    """Return what an adaptor changed for one method."""
    common = paired(without, with_)
    changes = [(measure, change) for measure in measures if (change := gain(measure, common))]
    if not changes:
        return f"{without.label} and {with_.label} have no finished seed in common, so they cannot be compared."
    texts = [f"{measure.title} by {number(change, signed=True)}" for measure, change in changes]
    variant = "" if with_.label == f"{without.label} + {with_.adaptor}" else f", as {with_.label}"
    sentence = f"{with_.adaptor} changed {listed(texts)} for {without.label}{variant} ({seeds_text([len(common)])})"
    if len(common) < ENOUGH:
        few = "a single seed" if len(common) == 1 else "two seeds"
        return f"{sentence}; {few} cannot show whether this is significant."
    verdicts: dict[str, list[str]] = {}
    for measure, change in changes:
        verdicts.setdefault(_verdict(change, measure), []).append(measure.title)
    return f"{sentence}: {'; '.join(verdict.format(listed(them)) for verdict, them in verdicts.items())}."


def _verdict(change: Estimate, measure: Measure) -> str:
    """Return the verdict, which depends on whether the 95% interval contains 0."""
    if change.half is None or abs(change.mean) <= change.half:
        return "the change in {} is not significant"
    return "{} got better" if (change.mean > 0) == measure.higher_is_better else "{} got worse"


def _overall(sides: Sequence[Pair], measure: Measure) -> str:
    """Return what an adaptor changed for several methods or settings; tests are corrected for their number."""
    adaptor = sides[0][1].adaptor
    changes = _changes(sides, measure)
    if not changes:
        return f"No method with {adaptor} has a finished seed in common with the same method without it."
    name = next(name for name, each in MEASURES.items() if each is measure)
    tests = compare([pair for pair, change in changes if change.half is not None], [name])
    outcomes = Counter(_outcome(test, measure) for test in tests)
    outcomes["too few seeds to tell"] = len(changes) - len(tests)
    every = {NO_CHANGE: "any"}
    counts = [
        f"{outcome} in {every.get(outcome, 'all') if count == len(changes) else count}"
        for outcome, count in outcomes.items()
        if count
    ]
    low, high = (minus(f"{end(change.mean for _, change in changes):+.1f}") for end in (min, max))
    how = f" (paired t-tests at {LEVEL:.0%} with Holm's correction)" if tests else ""
    changed = f"{adaptor} changed {measure.title} by {low} to {high} in {len(changes)} comparisons"
    return f"{changed}: {', '.join(counts)}{how}."


def _outcome(test: Comparison, measure: Measure) -> str:
    if not test.significant or test.difference is None:
        return NO_CHANGE
    return f"significantly {'better' if (test.difference.mean > 0) == measure.higher_is_better else 'worse'}"


def listed(items: Sequence[str]) -> str:
    """Join items as in 'a, b and c'."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
