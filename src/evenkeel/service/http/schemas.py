"""What clients send and receive, as the OpenAPI document shows it. The shape of a sample depends on the service."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from evenkeel.errors import InputError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store.forgotten import Forgotten
from evenkeel.service.store.version_rows import Version

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
    ids: list[Text] = Field(min_length=1, max_length=10_000, description="Ids of examples or predictions")


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
    if max(body.count(b'"'), body.count(b"{")) > MARKS_PER_EXAMPLE * examples + 1_000:
        raise InputError("The body has far too many fields or objects for the examples it may hold.")


class Schemas:
    """The bodies of requests that carry samples to one service, as adapters that parse JSON."""

    def __init__(self, config: ServiceConfig) -> None:
        limits = config.limits
        label: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label)] | Whole
        id: Any = Annotated[str, Field(strict=True, min_length=1, max_length=limits.label, pattern=ID)]
        sample: Any = self._sample(config)
        options: Any = {
            "top": (Annotated[int, Field(strict=True, ge=1)], Field(5, description="Number of labels to report")),
            "keep": (bool, Field(True, description="Whether to keep the sample so that it can be labelled later")),
        }
        own_id: Any = (id | None, Field(None, description="An id of your own, which makes it safe to send it again"))
        example: Any = create_model("Example", __base__=Body, **sample, label=(label, ...), id=own_id)
        question: Any = create_model("Question", __base__=Body, **sample)
        most: Any = Field(min_length=1, max_length=limits.examples)
        many: Any = {
            "learn": create_model("Examples", __base__=Body, examples=(Annotated[list[example], most], ...)),
            "predict": create_model(
                "Questions", __base__=Body, examples=(Annotated[list[question], most], ...), **options
            ),
        }
        one: Any = {"learn": example, "predict": create_model("QuestionAlone", __base__=question, **options)}
        self._readers = {name: (TypeAdapter(many[name]), TypeAdapter(one[name])) for name in many}
        self._described = {name: TypeAdapter(many[name] | one[name]) for name in many}
        self._most = limits.examples
        self.label: TypeAdapter[Any] = TypeAdapter(label)
        self.id: TypeAdapter[Any] = TypeAdapter(id)

    @staticmethod
    def _sample(config: ServiceConfig) -> dict[str, Any]:
        """Return the field that holds a sample."""
        features = config.input.features
        if features is None:
            image = Field(description="A PNG or JPEG file in base64", min_length=1)
            return {"image": (Annotated[str, Field(strict=True)], image)}
        vector = Annotated[list[Number], Field(min_length=features, max_length=features)]
        return {"x": (vector, Field(description=f"{features} numbers"))}

    def read(self, name: str, body: bytes) -> Any:
        """Parse a body with one item or many, straight from its bytes: much faster than by way of Python dicts."""
        require_few_marks(body, self._most)
        many, one = self._readers[name]
        if b"examples" not in body:
            return one.validate_json(body)
        try:
            return many.validate_json(body)
        except ValidationError as error:
            if error.errors(include_input=False)[0]["loc"] == ("examples",) and not _is_list(body):
                return one.validate_json(body)  # it was only a label with that name
            raise

    def described(self, name: str) -> dict[str, Any]:
        """Return the JSON schema of a body for the OpenAPI document, with all references inlined."""
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


def _is_list(body: bytes) -> bool:
    """Check whether a body holds many items."""
    parsed = from_json(body)
    return isinstance(parsed, dict) and "examples" in parsed
