"""What the code says about itself: the settings of the learner and the formulas of the measures."""

from evenkeel.config.schema import LearnerSettings
from evenkeel.results import metrics
from evenkeel.results.measures import MEASURES, NOTATION, Measure


def settings_of_the_learner() -> str:
    """Return a table of what the signature of `Learner` and the config say about them."""
    rows = [
        f"| `{name}` | {'none' if field.default is None else field.default} | {field.description} |"
        for name, field in LearnerSettings.model_fields.items()
    ]
    return "\n".join(["| `[learner]` | default | |", "|---|---|---|", *rows])


def measures() -> str:
    """Return the notation and, for each measure, its formula, who uses it and its name in commands."""
    return "\n\n".join([NOTATION, *(_measure(name, measure) for name, measure in MEASURES.items())])


def _measure(name: str, measure: Measure) -> str:
    formula, _, remark = measure.formula.partition("; ")
    about = f"{remark[0].upper()}{remark[1:]}." if remark else ""
    if not remark or all(each.formula != formula for each in MEASURES.values()):  # otherwise, another measure says it
        docstring = next(text for each in vars(metrics).values() if (text := each.__doc__ or "").startswith(formula))
        about = " ".join([*docstring.partition("\n")[2].split(), about])
    return f"## {measure.heading}\n\n```text\n{formula}\n```\n\n{about.strip()} In commands: `{name}`."
