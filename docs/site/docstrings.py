"""What our docstrings and comments mean, for the reference: a Griffe extension that mkdocstrings loads."""

import re
from typing import Any

from griffe import Alias, Attribute, Docstring, Expr, ExprSubscript, ExprTuple, Extension, Function, Object, Parameter

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"[^#]*?\s\s# (?P<text>.*)")
CONTINUED = re.compile(r"\s*# (?P<text>.*)")


class Docstrings(Extension):  # type: ignore[misc, unused-ignore] # griffe is not installed for `make lint`
    """Show doctests as code, comments behind attributes as their descriptions, and those of annotated settings."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        if attr.docstring is None and attr.annotation is not None:  # a field; without an annotation, an inner matter
            text = _comment(attr)
            attr.docstring = Docstring(text[:1].upper() + text[1:], parent=attr)

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        settings = [line for parameter in func.parameters if (line := _description(parameter))]
        if settings and func.docstring is None:
            func.docstring = Docstring("\n".join(settings), parent=func)


def _comment(attribute: Attribute) -> str:
    """Return the comment behind an attribute, with its following lines."""
    if attribute.lineno is None or isinstance(attribute.parent, Alias) or isinstance(attribute.filepath, list):
        return ""
    lines = attribute.lines_collection[attribute.filepath]
    first = COMMENT.fullmatch(lines[attribute.lineno - 1])
    texts = [first["text"]] if first else []
    for line in lines[attribute.lineno :] if first else []:
        if not (more := CONTINUED.fullmatch(line)):
            break
        texts.append(more["text"])
    return " ".join(texts).replace("[", r"\[")  # brackets are text, not links


def _description(parameter: Parameter) -> str:
    """Return a list item for a parameter with an annotated description, and keep only its type in the signature."""
    annotation = parameter.annotation
    if not isinstance(annotation, ExprSubscript) or str(annotation.left) != "Annotated":
        return ""
    assert isinstance(annotation.slice, ExprTuple)
    kind, text = annotation.slice.elements
    assert isinstance(kind, Expr | str)
    parameter.annotation = kind
    return f"- `{parameter.name}`: {str(text)[1:-1]}"
