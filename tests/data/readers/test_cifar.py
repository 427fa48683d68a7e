"""Untrusted pickles: what CIFAR's authors wrote is read, and nothing is executed."""

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.data.readers.cifar import unpickle
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures, python2_pickle
from tests.helpers.pickles import TEST, TRAIN, batch, cifar10_files, put


def put_archive(file: Path, files: dict[str, bytes], inside: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("dump", [python2_pickle, lambda value: pickle.dumps(value, 2), pickle.dumps])
@pytest.mark.parametrize("home", ["", "cifar10"])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar10_as_its_authors_pack_it(
    tmp_path: Path, progress: ProgressLog, dump: Callable[[Any], bytes], home: str, packed: bool
) -> None:
    if packed:
        put_archive(tmp_path / home / "cifar-10-python.tar.gz", cifar10_files(dump), "cifar-10-batches-py")
    else:
        put(tmp_path / home / "cifar-10-batches-py", cifar10_files(dump))
    data = SOURCES["cifar10"](tmp_path, progress=progress)
    assert (data.train.x == TRAIN).all()
    assert (data.test.x == TEST).all()
    assert data.train.y.tolist() == [*range(10), *range(10)]
    assert data.classes[:2] == ("airplane", "automobile")


@pytest.mark.parametrize(("labels", "classes"), [("fine", 100), ("coarse", 20)])
def test_cifar100_has_fine_and_coarse_labels(tmp_path: Path, progress: ProgressLog, labels: str, classes: int) -> None:
    pixels = pictures(100)
    both = {"fine_labels": list(range(100)), "coarse_labels": [place % 20 for place in range(100)]}
    content = {"data": pixels.reshape(100, -1), **both}
    names = {f"{kind}_label_names": [f"{kind}{i}" for i in range(n)] for kind, n in (("fine", 100), ("coarse", 20))}
    files = {"train": content, "test": content, "meta": names}
    put(tmp_path / "cifar-100-python", {name: python2_pickle(one) for name, one in files.items()})
    data = SOURCES["cifar100"](tmp_path, progress=progress, labels=labels)
    assert len(data.classes) == classes
    assert data.classes[-1] == f"{labels}{classes - 1}"
    assert data.train.y.tolist() == both[f"{labels}_labels"]


def test_arrays_in_fortran_order_and_of_wide_numbers_are_read_correctly() -> None:
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for array in (values, np.asfortranarray(values), values.astype("<i8"), values.astype(">i4")):
        for data in (python2_pickle(array), pickle.dumps(array, 2)):
            read = unpickle(data, "it").values
            assert read.dtype == array.dtype
            assert (read == values).all()


ATTACKS = {
    "os.system": "touch {proof}",
    "posix.system": "touch {proof}",
    "subprocess.getoutput": "touch {proof}",
    "builtins.eval": "__import__('pathlib').Path('{proof}').touch()",
    "builtins.exec": "__import__('pathlib').Path('{proof}').touch()",
    "os.mkdir": "{proof}",
}


def calling(what: str, *arguments: str) -> bytes:
    module, name = what.rsplit(".", 1)
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(map(_text, arguments)) + b"tR"


def _text(text: str) -> bytes:
    return b"X" + len(text.encode()).to_bytes(4, "little") + text.encode()


@pytest.mark.parametrize("target", ATTACKS)
@pytest.mark.parametrize("deep", [True, False])
def test_nothing_but_arrays_is_ever_called(tmp_path: Path, target: str, deep: bool) -> None:
    proof = tmp_path / "proof"
    argument = ATTACKS[target].replace("{proof}", str(proof))
    call = calling(target, argument)
    data = (b"}(" + _text("data") + b"](" + call + b"eu" if deep else call) + b"."
    with pytest.raises(DataError, match=rf"^the file refers to {target}, which no data file needs; it was not run\."):
        unpickle(data, "the file")
    assert not proof.exists()
    pickle.loads(data)
    assert proof.exists()  # the attack is a real one


NOT_ADMITTED = {
    "builtins.getattr": calling("builtins.getattr", "", "upper") + b".",
    "__builtin__.getattr": calling("__builtin__.getattr", "", "upper") + b".",
    "numpy.fromfile": calling("numpy.fromfile", "/etc/hostname") + b".",
    "numpy.core.multiarray.fromstring": calling("numpy.core.multiarray.fromstring", "") + b".",
    "numpy._core.numeric._frombuffer": calling("numpy._core.numeric._frombuffer") + b".",
    "_codecs.decode": calling("_codecs.decode", "a", "rot13") + b".",
    "copyreg._reconstructor": calling("copyreg._reconstructor") + b".",
    "numpy.dtype.__class__": b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93.",
}


@pytest.mark.parametrize("target", NOT_ADMITTED)
def test_all_other_names_are_rejected(target: str) -> None:
    with pytest.raises(DataError, match=rf"^the file refers to {target}, "):
        unpickle(NOT_ADMITTED[target], "the file")


BROKEN = {
    "not a complete pickle file": python2_pickle(TRAIN)[:-200],
    "Ran out of input": b"",
    "text in 'zlib_codec'": b"c_codecs\nencode\n(U\x01aU\x0azlib_codectR.",
    "an array of object, which": b"cnumpy\ndtype\n(U\x01OtR.",
    r"shape \(2, 9\) has 6 bytes": python2_pickle(np.zeros((2, 3), np.uint8)).replace(
        b"J\x03\x00\x00\x00t", b"J\x09\x00\x00\x00t"
    ),
    r"shape \(-2, -3\)|negative|cannot reshape|can only": python2_pickle(np.zeros((2, 3), np.uint8)).replace(
        b"(J\x02\x00\x00\x00J\x03\x00\x00\x00t", b"(J\xfe\xff\xff\xffJ\xfd\xff\xff\xfft"
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_pickles_are_reported(message: str) -> None:
    with pytest.raises(DataError, match=f"^the file.*({message})"):
        unpickle(BROKEN[message], "the file")


def changed(**entries: Any) -> bytes:
    return python2_pickle({**batch(TRAIN[:4], [0, 1, 2, 3]), **entries})


ERRORS = {
    r"uint8 of shape \(n, 3072\), but is uint8 of shape \(4, 768\)": changed(
        data=TRAIN[:4, :, ::2, ::2].reshape(4, -1)
    ),
    "but is int64": changed(data=TRAIN[:4].reshape(4, -1).astype(np.int64)),
    "but is no array": changed(data=[1, 2]),
    "has 4 images, but 3 labels": changed(labels=[0, 1, 2]),
    "has 4 images, but no list of labels": changed(labels="0123"),
    "the label 10 at index 2": changed(labels=[0, 1, 10, 3]),
    "the label 'x' at index 0": changed(labels=["x", 1, 2, 3]),
    "has no 'labels'; it has data": python2_pickle({"data": TRAIN[:4].reshape(4, -1)}),
    "has no 'data'; it is a list": python2_pickle([1]),
}


@pytest.mark.parametrize("message", ERRORS)
@pytest.mark.parametrize("packed", [True, False])
def test_invalid_batches_are_reported_with_the_name_of_the_file(
    tmp_path: Path, progress: ProgressLog, message: str, packed: bool
) -> None:
    files = cifar10_files() | {"data_batch_3": ERRORS[message]}
    if packed:
        put_archive(tmp_path / "cifar-10-python.tar.gz", files, "cifar-10-batches-py")
    else:
        put(tmp_path / "cifar-10-batches-py", files)
    with pytest.raises(DataError, match=message) as caught:
        SOURCES["cifar10"](tmp_path, progress=progress)
    assert "data_batch_3" in str(caught.value)


def test_an_incomplete_folder_and_a_truncated_archive_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    files = cifar10_files()
    del files["data_batch_2"], files["test_batch"]
    put(tmp_path / "a" / "cifar-10-batches-py", files)
    with pytest.raises(DataError, match="lacks data_batch_2, test_batch"):
        SOURCES["cifar10"](tmp_path / "a", progress=progress)
    archive = tmp_path / "b" / "cifar-10-python.tar.gz"
    put_archive(archive, cifar10_files(), "cifar-10-batches-py")
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not an archive"):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-python.tar.gz cannot be read to its end"):
            SOURCES["cifar10"](tmp_path / "b", progress=progress)


def test_a_class_without_samples_is_reported(tmp_path: Path, progress: ProgressLog) -> None:
    put(tmp_path / "cifar-10-batches-py", cifar10_files() | {"test_batch": changed(labels=[0, 1, 2, 3])})
    with pytest.raises(DataError, match=r"The class 'deer' of cifar10 \(.*\) has no test sample \(nor do 5 other"):
        SOURCES["cifar10"](tmp_path, progress=progress)
