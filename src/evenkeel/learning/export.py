"""Export of a classifier to one file that runs without this library: ONNX, or a program of torch.export.

The file holds the preparation of the input, the network with the method's way of predicting, and the labels, but not
memory, teachers, optimizer or adaptor. `x` is what `predict` takes, uint8 images or float32 features, any number of
samples; the outputs are `probabilities` (n, classes), float32, and `index` (n,), int64, of the most likely label. An
encoder in half precision becomes one of float32, which every runtime has. An encoder of texts is left out, as its
tokenizer is no graph of operations: `x` is then what it returns.
"""

import io
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from evenkeel.errors import CheckpointError, SettingsError, nearest, reason
from evenkeel.files import write_whole
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.encoder import output
from evenkeel.learning.inputs import InputSpec
from evenkeel.learning.rng import make_generator

KEY = "evenkeel"  # of the description in ONNX metadata; in a .pt2 it is the extra file evenkeel.json


def export(classifier: Classifier, path: Path) -> None:
    """Write the classifier, which stays unchanged, to an .onnx or .pt2 file. A failure leaves an older file intact."""
    encode, _ = FORMATS[_suffix(path)]
    if path.is_dir():
        raise SettingsError(f"Cannot export to {str(path)!r}: it is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise SettingsError(f"Cannot export to {str(path)!r}: the folder {str(path.parent)!r} does not exist.")
    description = _description(classifier)
    with _quiet():
        content = encode(classifier, description)
    write_whole(path, content)


def described(path: Path) -> dict[str, Any]:
    """Return the description in an exported file: `labels`, in the order of `probabilities`; `input`, the `shape` of a
    sample and the `dtype`; and the `version` of evenkeel that wrote it.
    """
    _, describe = FORMATS[_suffix(path)]
    if not path.is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        text = describe(path)
        description: dict[str, Any] = json.loads(text or "{}")
    except SettingsError:
        raise
    except Exception as error:  # a foreign file can make its readers fail in any way
        raise CheckpointError(f"{str(path)!r} is damaged, or another kind of file.") from error
    if not description:
        raise CheckpointError(f"{str(path)!r} was not exported by evenkeel: it does not list its labels.")
    return {**description, "labels": [_hashable(label) for label in description["labels"]]}


class _Predictor(nn.Module):
    """Everything from the user's input to the prediction, as one module."""

    def __init__(self, scores: nn.Module, inputs: InputSpec, known: int, encoder: nn.Module | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.scores = scores
        self.inputs = inputs
        self.known = known

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        prepared = self.inputs.scaled(x.clone())  # a network may write into its input
        if self.encoder is not None:
            like = next(self.encoder.parameters(), prepared)
            prepared = output(self.encoder(prepared.to(like.dtype))).to(prepared.dtype)
        scores: Tensor = self.scores(prepared)[:, : self.known]
        return {"probabilities": scores.softmax(dim=1, dtype=torch.float32), "index": scores.argmax(dim=1)}


def _traced(classifier: Classifier) -> ExportedProgram:
    classifier = classifier.snapshot()  # tracing modifies a module, and another thread may be using this one
    dtype = _dtype(classifier)
    example = torch.rand(2, *_sample_shape(classifier), generator=make_generator(0, "export"))
    example = (255 * example).to(dtype) if dtype == torch.uint8 else example
    predict = classifier.logits_of_stored if classifier.inputs.takes_texts else classifier.predict_proba
    predict(example)  # raises if not finite; also fills what a net caches at its first call
    predictor = _predictor(classifier)
    try:
        # Strict, by bytecode: otherwise len(x), common in networks and methods, would fix the number of samples.
        program = torch.export.export(predictor, (example,), dynamic_shapes=({0: Dim("samples", min=1)},), strict=True)
    except Exception as error:  # a user's own network can make the tracer fail in any way
        raise SettingsError(
            f"The network or the method cannot be written as a graph of operations: {reason(error)}."
        ) from error
    used = {spec.target for spec in program.graph_signature.input_specs}
    for name in program.state_dict.keys() - used:  # teachers, and averages not used for prediction
        del program.state_dict[name]
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths and source lines of this machine
    return program


def _predictor(copy: Classifier) -> _Predictor:
    """Return the predictor of a copied classifier, on the CPU."""
    scores = copy.method.exported(copy.net, copy.memory).cpu().requires_grad_(False)
    front = None if copy.inputs.takes_texts else copy.inputs.encoder
    encoder = None if front is None else _not_half(deepcopy(front.module).cpu())
    parts = [scores] if encoder is None else [scores, encoder]
    for tensor in chain.from_iterable(chain(part.parameters(), part.buffers()) for part in parts):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)  # else torch.export.save warns
    inputs = InputSpec(next(copy.net.cpu().head.parameters()), copy.inputs.normalize)
    return _Predictor(scores, inputs, len(copy.classes), encoder)


def _not_half(encoder: nn.Module) -> nn.Module:
    halves = (torch.bfloat16, torch.float16)
    return encoder.float() if any(weight.dtype in halves for weight in encoder.parameters()) else encoder


# The description in a file


def _description(classifier: Classifier) -> str:
    labels = classifier.classes
    shape, dtype = list(_sample_shape(classifier)), str(_dtype(classifier)).removeprefix("torch.")
    for label in labels:
        try:
            restored = _hashable(json.loads(json.dumps(label, allow_nan=False)))
        except (TypeError, ValueError, RecursionError):
            restored = None
        if restored != label:
            raise SettingsError(
                f"The label {label!r} cannot be written to the file, which holds labels as JSON: text, numbers, None, "
                "and tuples of them."
            )
    facts = {"labels": labels, "input": {"shape": shape, "dtype": dtype}, "version": version("evenkeel")}
    return json.dumps(facts)


def _sample_shape(classifier: Classifier) -> tuple[int, ...]:
    if classifier.inputs.shape is None or not classifier.classes:
        raise SettingsError("Nothing has been learned yet, so there is nothing to export.")
    encoder = classifier.inputs.encoder
    return encoder.shape_behind(()) if encoder is not None and encoder.takes_texts else classifier.inputs.shape


def _dtype(classifier: Classifier) -> torch.dtype:
    is_image = classifier.inputs.dtype == torch.uint8 and not classifier.inputs.takes_texts
    return torch.uint8 if is_image else torch.float32


def _hashable(value: Any) -> Any:
    """Turn lists back into tuples: JSON has no tuples, and a label cannot be a list."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


# The formats


def _to_onnx(classifier: Classifier, description: str) -> bytes:
    _require_onnx()
    program = _traced(classifier)
    try:
        onnx_program = torch.onnx.export(
            program,
            dynamo=True,
            dynamic_shapes=({0: "samples"},),  # only for its name in the file
            input_names=["x"],
            output_names=["probabilities", "index"],
            verbose=False,
        )
        assert onnx_program is not None
        onnx_program.model.metadata_props[KEY] = description
        content: bytes = onnx_program.model_proto.SerializeToString()
    except Exception as error:  # an operation that ONNX lacks, or more than the 2 GB that such a file can hold
        raise SettingsError(f"The network cannot be written as ONNX, but it can as .pt2: {reason(error)}.") from error
    return content


def _read_onnx(path: Path) -> str | None:
    _require_onnx()
    import onnx

    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}.get(KEY)


def _require_onnx() -> None:
    for name in ("onnx", "onnxscript"):
        try:
            import_module(name)
        except ImportError:
            raise SettingsError(
                f"An ONNX file needs the package {name!r}, which is not installed: pip install 'evenkeel[export]'. "
                "A .pt2 file needs only torch."
            ) from None


def _to_pt2(classifier: Classifier, description: str) -> bytes:
    content = io.BytesIO()
    torch.export.save(_traced(classifier), content, extra_files={f"{KEY}.json": description})
    return content.getvalue()


def _read_pt2(path: Path) -> str | None:
    with zipfile.ZipFile(path) as archive:  # not torch.export.load, which would build the whole network
        names = [name for name in archive.namelist() if name.endswith(f"/{KEY}.json")]
        return archive.read(names[0]).decode() if names else None


FORMATS: dict[str, tuple[Callable[[Classifier, str], bytes], Callable[[Path], str | None]]] = {
    ".onnx": (_to_onnx, _read_onnx),
    ".pt2": (_to_pt2, _read_pt2),
}


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        allowed = " or ".join(FORMATS)
        raise SettingsError(
            f"{str(path)!r} must end in {allowed}, which determines the format of the file.{nearest(suffix, FORMATS)}"
        )
    return suffix


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages that torch logs for its own developers while it exports."""
    registry = logging.getLogger("torch.onnx._internal.exporter._registration")  # that torchvision is not installed
    level = registry.level
    registry.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            yield
    finally:
        registry.setLevel(level)
