"""What clients send and receive, as the OpenAPI document shows it. The shape of a sample depends on the service."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from evenkeel.errors import InputError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store.forgotten import Forgotten
from evenkeel.service.store.version_rows import Version

PART = 64 * 1024  # bytes of a body that are parsed at once: other threads wait for about a millisecond
_SAMPLE = re.compile(rb'"x"\s*:\s*(.)')
_BEGIN = re.compile(rb'\s*\{\s*"examples"\s*:\s*\[')
_CUT = re.compile(rb"\}\s*,\s*\{")
_END = re.compile(rb"\]\s*(,[^\[\]{}]*)?\}\s*\Z")
MOST_IDS = 10_000  # in one request to forget
MARKS_PER_EXAMPLE = 64  # quotes, or braces, that a body may hold for each example: far more than it needs
ID = r"^[A-Za-z0-9._:@+=-]+$"
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]


Batch = Annotated[int, Field(ge=0, lt=2**63, description="Number of a batch")]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why a request failed."""

    error: str


class LearnAnswer(BaseModel):
    accepted: int = Field(description="Examples that are now durable and will be learned in order")
    repeated: int = Field(description="Examples accepted before, recognized by their ids; they are not learned twice")
    ids: list[str] = Field(description="In the order of the examples; for DELETE /v1/examples/{id}")
    waiting: int = Field(description="Examples accepted but not learned yet")


class LabelProbability(BaseModel):
    label: str | int
    probability: float


class OnePrediction(BaseModel):
    id: str | None = Field(description="For POST /v1/label; null if the prediction was not kept")
    label: str | int
    probabilities: list[LabelProbability]


class PredictAnswer(BaseModel):
    version: int = Field(description="Version of the model that answered: the number of the last batch it had learned")
    predictions: list[OnePrediction]


class VersionsAnswer(BaseModel):
    current: int
    versions: list[Version]


class Ids(Body):
    ids: list[Text] = Field(min_length=1, max_length=MOST_IDS, description="Ids of examples or predictions")


class ForgetAnswer(BaseModel):
    forgotten: dict[str, Forgotten] = Field(description="What was removed, by id")
    unknown: list[str] = Field(description="Ids that nothing is stored under")


class SettledAnswer(BaseModel):
    examples: int = Field(description="Examples that were set aside and no longer are")


class Note(Body):
    note: Annotated[str, Field(max_length=200)] = ""


class Truth(Body):
    id: Text = Field(description="The id of a prediction")
    label: Text | Whole


class Truths(Body):
    labels: list[Truth] = Field(min_length=1)


def _kind(sent: Any) -> str:
    return "many" if isinstance(sent, dict) and "labels" in sent else "one"


TruthOrTruths = Annotated[Annotated[Truth, Tag("one")] | Annotated[Truths, Tag("many")], Discriminator(_kind)]


def require_few_marks(body: bytes, examples: int) -> None:
    """Raise InputError for a body with far more fields than it needs: reporting each would take very long."""
    most = max(MARKS_PER_EXAMPLE * examples, 3 * MOST_IDS)  # an id has two quotes
    if max(body.count(b'"'), body.count(b"{")) > most:
        raise InputError("The body has far too many fields or objects for the examples it may hold.")


class Schemas:
    """The bodies of requests that carry samples to one service, as adapters that parse JSON."""

    def __init__(self, config: ServiceConfig) -> None:
        limits = config.limits
        label: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label)] | Whole
        id: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label, pattern=ID)]
        self._readers = {kind: _models(sample, label, id, limits.examples) for kind, sample in _samples(config).items()}
        self._most = limits.examples
        self.label: TypeAdapter[Any] = TypeAdapter(label)
        self.id: TypeAdapter[Any] = TypeAdapter(id)

    def read(self, name: str, body: bytes) -> tuple[list[Any], Any]:
        """Parse a body with one item or many; return the items, and the body, which holds options, too.

        It is parsed straight from its bytes, which is much faster than by way of Python dicts.
        """
        require_few_marks(body, self._most)
        many, one = self._readers[_kind_of(body, self._readers)][name]
        if b"examples" not in body:
            return _alone(one, body)
        try:
            return _in_parts(many, body, self._most)
        except ValidationError as error:
            if error.errors(include_input=False)[0]["loc"] == ("examples",) and not _is_list(body):
                return _alone(one, body)  # it was only a label with that name
            raise

    def described(self, name: str) -> dict[str, Any]:
        """Return the JSON schema of a body for the OpenAPI document, with all references inlined."""
        models = [adapter for reader in self._readers.values() for adapter in reader[name]]
        schemas = [adapter.json_schema(ref_template="#/$defs/{model}") for adapter in models]
        return {"anyOf": [_inlined(schema, schema.pop("$defs", {})) for schema in schemas]}


def _samples(config: ServiceConfig) -> dict[str, Any]:
    """Return the field that holds a sample, for each way to send one."""
    features = config.input.features
    if config.input.text:
        return {"text": {"text": (Text, Field(description="A text", pattern=r"\S"))}}
    if features is None:
        image = Field(description="A PNG or JPEG file in base64", min_length=1)
        return {"image": {"image": (Annotated[str, Field(strict=True)], image)}}
    vector = Annotated[list[Number], Field(min_length=features, max_length=features)]
    size = 4 * -(-4 * features // 3)
    text = Annotated[str, Field(strict=True, min_length=size, max_length=size)]
    packed = Field(description=f"The base64 of {features} floats of 32 bits, little-endian")
    return {"numbers": {"x": (vector, Field(description=f"{features} numbers"))}, "base64": {"x": (text, packed)}}


def _models(sample: Any, label: Any, id: Any, most: int) -> dict[str, tuple[TypeAdapter[Any], TypeAdapter[Any]]]:
    """Return the adapters of bodies with many items and with one, by route."""
    options: Any = {
        "top": (Annotated[int, Field(strict=True, ge=1)], Field(5, description="Number of labels to report")),
        "keep": (bool, Field(True, description="Whether to keep the sample so that it can be labelled later")),
    }
    own_id: Any = (id | None, Field(None, description="An id of your own, which makes it safe to send it again"))
    example: Any = create_model("Example", __base__=Body, **sample, label=(label, ...), id=own_id)
    question: Any = create_model("Question", __base__=Body, **sample)
    some: Any = Field(min_length=1, max_length=most)
    examples = create_model("Examples", __base__=Body, examples=(Annotated[list[example], some], ...))
    questions = create_model("Questions", __base__=Body, examples=(Annotated[list[question], some], ...), **options)
    alone = create_model("QuestionAlone", __base__=question, **options)
    return {
        "learn": (TypeAdapter(examples), TypeAdapter(example)),
        "predict": (TypeAdapter(questions), TypeAdapter(alone)),
    }


def _kind_of(body: bytes, kinds: Iterable[str]) -> str:
    """Return how the first sample of a body is sent."""
    if "base64" not in kinds:
        return next(iter(kinds))
    first = _SAMPLE.search(body, 0, PART)
    return "base64" if first is not None and first[1] == b'"' else "numbers"


def _alone(one: TypeAdapter[Any], body: bytes) -> tuple[list[Any], Any]:
    parsed = one.validate_json(body)
    return [parsed], parsed


def _in_parts(many: TypeAdapter[Any], body: bytes, most: int) -> tuple[list[Any], Any]:
    """Parse a large body in parts, between which other threads can run; as a whole if it cannot be cut, or is wrong.

    Each part is the list's beginning, some of its items and its end. A cut within a text would leave half of it, which
    is not valid; a field within a part that occurs twice would replace items, so that some braces have none.
    """
    items, parsed = list[Any](), None
    try:
        for part in _parts(body):
            parsed = many.validate_json(part)
            if len(parsed.examples) != part.count(b"{") - 1:
                items = []
                break
            items += parsed.examples
    except ValidationError:
        items = []
    if not 0 < len(items) <= most:
        whole = many.validate_json(body)
        return list(whole.examples), whole
    return items, parsed


def _parts(body: bytes) -> Iterator[bytes]:
    """Yield bodies that together hold the items of this one; none if it is short, or not of the usual form."""
    begin, end = _BEGIN.match(body), _END.search(body, max(0, len(body) - 200))
    if len(body) < 2 * PART or begin is None or end is None:
        return
    at = begin.end()
    while at < end.start():
        cut = _CUT.search(body, at + PART, end.start())
        until = end.start() if cut is None else cut.start() + 1
        yield begin[0] + body[at:until] + end[0]
        at = end.start() if cut is None else cut.end() - 1


def _inlined(part: Any, defined: dict[str, Any]) -> Any:
    """Return a JSON schema with all references replaced by what they refer to."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inlined(defined[part["$ref"].rsplit("/", 1)[-1]], defined)
        return {key: _inlined(value, defined) for key, value in part.items()}
    return [_inlined(each, defined) for each in part] if isinstance(part, list) else part


def _is_list(body: bytes) -> bool:
    """Check whether a body holds many items."""
    parsed = from_json(body)
    return isinstance(parsed, dict) and "examples" in parsed
