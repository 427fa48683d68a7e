"""What clients send and get, as the OpenAPI document shows it. The shape of a sample is that of this service."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from evenkeel.errors import InputError
from evenkeel.service.config import ServiceConfig

LISTS = {"learn": "examples", "predict": "examples", "label": "labels"}  # the field by which many come
STRANGE = 64  # quotes or braces for each example that a body may hold: far more than it needs
ID = r"^[A-Za-z0-9._:@+=-]+$"
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why something was not done."""

    error: str


class LearnAnswer(BaseModel):
    accepted: int = Field(description="Examples that are durable now, and will be learned in order")
    repeated: int = Field(description="Examples that were accepted before, by their ids; they are not learned twice")
    ids: list[str] = Field(description="In the order of the examples; for DELETE /v1/examples/{id}")
    waiting: int = Field(description="Examples accepted but not learned yet")


class LabelProbability(BaseModel):
    label: str | int
    probability: float


class OnePrediction(BaseModel):
    id: str | None = Field(description="For POST /v1/label; null where it could not be kept")
    label: str | int
    probabilities: list[LabelProbability]


class PredictAnswer(BaseModel):
    version: int = Field(description="Of the model that answered: the number of the last batch it had learned")
    predictions: list[OnePrediction]


class ForgetAnswer(BaseModel):
    waiting: bool = Field(description="It had not been learned yet, and will not be")
    memory: int = Field(description="Samples removed from memory")
    versions: int = Field(description="Older versions whose memory held it too")
    prediction: bool = Field(description="It was kept to be labelled later")


class VersionAnswer(BaseModel):
    number: int
    time: float
    learned: int
    asked: bool
    note: str


class VersionsAnswer(BaseModel):
    current: int
    versions: list[VersionAnswer]


class Note(Body):
    note: Annotated[str, Field(max_length=200)] = ""


class Schemas:
    """The bodies of one service, as adapters that read JSON."""

    def __init__(self, config: ServiceConfig) -> None:
        limits = config.limits
        label: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label)] | Whole
        id: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label, pattern=ID)]
        sample: Any = self._sample(config)
        ways: Any = {
            "top": (Annotated[int, Field(strict=True, ge=1)], Field(5, description="How many labels to tell of")),
            "keep": (bool, Field(True, description="Whether it may be labelled later; the sample is kept for that")),
        }
        own: Any = (id | None, Field(None, description="Your own, so that sending it again does no harm"))
        example: Any = create_model("Example", __base__=Body, **sample, label=(label, ...), id=own)
        question: Any = create_model("Question", __base__=Body, **sample)
        truth: Any = create_model(
            "Truth", __base__=Body, id=(id, Field(description="Of a prediction")), label=(label, ...)
        )
        most: Any = Field(min_length=1, max_length=limits.examples)
        many: Any = {
            "learn": create_model("Examples", __base__=Body, examples=(Annotated[list[example], most], ...)),
            "predict": create_model(
                "Questions", __base__=Body, examples=(Annotated[list[question], most], ...), **ways
            ),
            "label": create_model("Truths", __base__=Body, labels=(Annotated[list[truth], most], ...)),
        }
        one: Any = {
            "learn": example,
            "predict": create_model("QuestionAlone", __base__=question, **ways),
            "label": truth,
        }
        self._readers = {name: (TypeAdapter(many[name]), TypeAdapter(one[name])) for name in many}
        self._described = {name: TypeAdapter(many[name] | one[name]) for name in many}
        self._marks = STRANGE * limits.examples + 1_000
        self.label: TypeAdapter[Any] = TypeAdapter(label)
        self.id: TypeAdapter[Any] = TypeAdapter(id)

    @staticmethod
    def _sample(config: ServiceConfig) -> dict[str, Any]:
        features = config.input.features
        if features is None:
            told = Field(description="A PNG or JPEG file in base64", min_length=1)
            return {"image": (Annotated[str, Field(strict=True)], told)}
        vector = Annotated[list[Number], Field(min_length=features, max_length=features)]
        return {"x": (vector, Field(description=f"{features} numbers"))}

    def read(self, name: str, body: bytes) -> Any:
        """One thing or many, as it came; straight from the bytes, much faster than by way of Python's dicts."""
        if max(body.count(b'"'), body.count(b"{")) > self._marks:  # a fault for each would take very long to tell
            raise InputError("The body has far too many fields or objects for the examples that it may hold.")
        many, one = self._readers[name]
        if LISTS[name].encode() not in body:
            return one.validate_json(body)
        try:
            return many.validate_json(body)
        except ValidationError as error:
            if error.errors(include_input=False)[0]["loc"] == (LISTS[name],) and not _is_list(body, name):
                return one.validate_json(body)  # it was only a label of that name
            raise

    def described(self, name: str) -> dict[str, Any]:
        """For the OpenAPI document, with everything written out in its place."""
        schema = self._described[name].json_schema(ref_template="#/$defs/{model}")
        defined = schema.pop("$defs", {})

        def inlined(part: Any) -> Any:
            if isinstance(part, dict):
                if "$ref" in part:
                    return inlined(defined[part["$ref"].rsplit("/", 1)[-1]])
                return {key: inlined(value) for key, value in part.items()}
            return [inlined(each) for each in part] if isinstance(part, list) else part

        described: dict[str, Any] = inlined(schema)
        return described


def _is_list(body: bytes, name: str) -> bool:
    given = from_json(body)
    return isinstance(given, dict) and LISTS[name] in given
