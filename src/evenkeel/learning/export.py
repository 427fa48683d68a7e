"""A classifier as one file that runs where this library is not: ONNX, or a program of torch.export.

In it are the preparation of the input, the network as the method asks it, and the labels. Memory, teachers, optimizer
and adaptor are not. `x` is what `predict` takes, uint8 images or float32 features, any number of samples; the answers
are `probabilities` (n, classes), float32, and `index` (n,), int64, of the most likely label.
"""

import io
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F

from evenkeel.errors import CheckpointError, SettingsError, nearest
from evenkeel.files import write_whole
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.inputs import InputSpec
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import ICaRL
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import make_generator

KEY = "evenkeel"  # of the description in ONNX metadata; in a .pt2 it is the extra file evenkeel.json


def export(classifier: Classifier, path: Path) -> None:
    """Write the classifier to `path`, an .onnx or a .pt2. Changes nothing in it; a failure leaves an older file be."""
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
    """What an exported file says of itself: `labels`, in the order of `probabilities`; `input`, the `shape` of a sample
    and the `dtype`; and the `version` of evenkeel that wrote it.
    """
    _, describe = FORMATS[_suffix(path)]
    if not path.is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        text = describe(path)
        found: dict[str, Any] = json.loads(text or "{}")
    except SettingsError:
        raise
    except Exception as error:  # a foreign file can make its readers fail in any way
        raise CheckpointError(f"{str(path)!r} is damaged, or another kind of file.") from error
    if not found:
        raise CheckpointError(f"{str(path)!r} was not exported by evenkeel: it does not say what its labels are.")
    return {**found, "labels": [_hashable(label) for label in found["labels"]]}


class _Asked(nn.Module):
    """All that happens between what a user hands in and the answer."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.net = classifier.net
        self.method = classifier.method
        self.memory = classifier.memory
        self.inputs = classifier.inputs
        self.known = len(classifier.classes)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        taken = self.inputs.to_network(x.clone())  # a network may write into its input
        scores = self.method.classify(self.net, self.memory, taken)[:, : self.known]
        return {"probabilities": scores.softmax(dim=1, dtype=torch.float32), "index": scores.argmax(dim=1)}


def _traced(classifier: Classifier) -> ExportedProgram:
    classifier = classifier.snapshot()  # tracing meddles with a module, and another thread may be asking this one
    dtype = _dtype(classifier)
    example = torch.rand(2, *_sample_shape(classifier), generator=make_generator(0, "export"))
    example = (255 * example).to(dtype) if dtype == torch.uint8 else example
    classifier.predict_proba(example)  # is it finite? And what a net caches at its first call is there from now on
    asked = _Asked(_alone(classifier))
    try:
        # Strict, by bytecode: else len(x), which is common in networks and methods, would fix the number of samples.
        program = torch.export.export(asked, (example,), dynamic_shapes=({0: Dim("samples", min=1)},), strict=True)
    except Exception as error:  # a user's own network can make the tracer fail in any way
        raise SettingsError(
            f"The network or the method cannot be written as a graph of operations: {_first_line(error)}"
        ) from error
    used = {spec.target for spec in program.graph_signature.input_specs}
    for name in program.state_dict.keys() - used:  # teachers, and averages that do not answer
        del program.state_dict[name]
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths and source lines of this machine
    return program


def _alone(copy: Classifier) -> Classifier:
    """On the CPU, and without a memory to look into."""
    for part in copy.method.modules():
        if isinstance(part, ICaRL) and len(copy.memory):
            found, classes = part.class_means(copy.net, copy.memory)
            means = found.new_zeros(copy.net.outputs, found.shape[1]).index_copy(0, classes, found).cpu()
            missing = torch.ones(len(means), dtype=torch.bool).index_fill(0, classes.cpu(), False)
            part.classify = partial(_nearest_mean, means, missing)  # type: ignore[method-assign]
    net, method = copy.net.cpu(), copy.method.cpu().requires_grad_(False)
    for tensor in chain(net.parameters(), net.buffers(), method.parameters(), method.buffers()):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)  # torch.export.save warns of others
    inputs = InputSpec(next(net.head.parameters()), copy.inputs.normalize)
    return Classifier(net, method, copy.memory, copy.labels, inputs)


def _nearest_mean(means: Tensor, missing: Tensor, net: Net, _: Memory, x: Tensor) -> Tensor:
    """iCaRL's answer with the class means as numbers: (outputs, features), and which outputs have none.

    Not by torch.cdist, which goes another way from 25 samples on, while a graph has but one.
    """
    features = F.normalize(net.features(x), dim=1)
    square = features.square().sum(dim=1, keepdim=True) - 2 * F.linear(features, means) + means.square().sum(dim=1)
    return (-square).masked_fill(missing, -torch.inf)


# What a file says of itself


def _description(classifier: Classifier) -> str:
    labels = classifier.classes
    shape, dtype = list(_sample_shape(classifier)), str(_dtype(classifier)).removeprefix("torch.")
    for label in labels:
        try:
            held = _hashable(json.loads(json.dumps(label, allow_nan=False)))
        except (TypeError, ValueError, RecursionError):
            held = None
        if held != label:
            raise SettingsError(
                f"The label {label!r} cannot be written to the file, which holds labels as JSON: text, numbers, None, "
                "and tuples of them."
            )
    facts = {"labels": labels, "input": {"shape": shape, "dtype": dtype}, "version": version("evenkeel")}
    return json.dumps(facts)


def _sample_shape(classifier: Classifier) -> tuple[int, ...]:
    if classifier.inputs.shape is None or not classifier.classes:
        raise SettingsError("Nothing was learned yet, so there is nothing to export.")
    return classifier.inputs.shape


def _dtype(classifier: Classifier) -> torch.dtype:
    return torch.uint8 if classifier.inputs.dtype == torch.uint8 else torch.float32


def _hashable(value: Any) -> Any:
    """JSON knows no tuples; among labels, each of its lists was one."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


# The formats


def _to_onnx(classifier: Classifier, description: str) -> bytes:
    _require_onnx()
    program = _traced(classifier)
    try:
        made = torch.onnx.export(
            program,
            dynamo=True,
            dynamic_shapes=({0: "samples"},),  # only for its name in the file
            input_names=["x"],
            output_names=["probabilities", "index"],
            verbose=False,
        )
        assert made is not None
        made.model.metadata_props[KEY] = description
        content: bytes = made.model_proto.SerializeToString()
    except Exception as error:  # an operation that ONNX has not, or more than the 2 GB that such a file can hold
        raise SettingsError(f"The network cannot be written as ONNX; as .pt2 it can: {_first_line(error)}") from error
    return content


def _in_onnx(path: Path) -> str | None:
    _require_onnx()
    import onnx

    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}.get(KEY)


def _require_onnx() -> None:
    for name in ("onnx", "onnxscript"):
        try:
            import_module(name)
        except ImportError:
            raise SettingsError(
                f"An ONNX file needs the package {name!r}, which is not there: pip install 'evenkeel[export]'. "
                "A .pt2 file needs torch alone."
            ) from None


def _to_pt2(classifier: Classifier, description: str) -> bytes:
    content = io.BytesIO()
    torch.export.save(_traced(classifier), content, extra_files={f"{KEY}.json": description})
    return content.getvalue()


def _in_pt2(path: Path) -> str | None:
    with zipfile.ZipFile(path) as archive:  # not torch.export.load, which would build the whole network
        found = [name for name in archive.namelist() if name.endswith(f"/{KEY}.json")]
        return archive.read(found[0]).decode() if found else None


FORMATS: dict[str, tuple[Callable[[Classifier, str], bytes], Callable[[Path], str | None]]] = {
    ".onnx": (_to_onnx, _in_onnx),
    ".pt2": (_to_pt2, _in_pt2),
}


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        allowed = " or ".join(FORMATS)
        raise SettingsError(
            f"{str(path)!r} must end in {allowed}, which says the format of the file.{nearest(suffix, FORMATS)}"
        )
    return suffix


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch tells its own developers while it exports."""
    registry = logging.getLogger("torch.onnx._internal.exporter._registration")  # that torchvision is not installed
    level = registry.level
    registry.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            yield
    finally:
        registry.setLevel(level)
