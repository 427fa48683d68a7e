import numpy as np
import pytest
import torch

from evenkeel.data.dataset import DataSet
from evenkeel.errors import DataError, SettingsError
from tests.helpers.data_files import pictures

X, X_TEST = np.arange(12, dtype=np.float64).reshape(6, 2), np.zeros((3, 2))
Y, Y_TEST = ["b", "a", "c", "a", "b", "a"], ["a", "b", "c"]


def test_arrays_become_float32_and_labels_indices_into_sorted_classes() -> None:
    data = DataSet.of(X, Y, X_TEST, Y_TEST, name="mine")
    assert data.name == "mine"
    assert data.classes == ("a", "b", "c")
    assert data.train.x.dtype == np.float32
    assert data.train.y.dtype == np.int64
    assert data.train.y.tolist() == [1, 0, 2, 0, 1, 0]
    assert data.test.y.tolist() == [0, 1, 2]
    assert len(data.train) == 6


def test_whole_numbers_are_labels_or_indices_if_classes_are_named() -> None:
    labels, labels_test = [30, 7, 30, 7, 7, 7], [7, 30, 7]
    assert DataSet.of(X, labels, X_TEST, labels_test).classes == ("7", "30")  # sorted by value, not as text
    assert DataSet.of(X, labels, X_TEST, labels_test, classes=[30, 7]).train.y.tolist() == [0, 1, 0, 1, 1, 1]
    named = DataSet.of(X, [1, 0, 1, 0, 0, 0], X_TEST, [0, 1, 0], classes=["dog", "cat"])
    assert named.classes == ("dog", "cat")
    assert named.train.y.tolist() == [1, 0, 1, 0, 0, 0]


def test_numpy_torch_and_either_place_of_the_channels_give_the_same_set() -> None:
    x, x_test = pictures(4, (3, 5, 6)), pictures(2, (3, 5, 6), seed=1)
    y, y_test = [0, 1, 0, 1], [1, 0]
    first = DataSet.of(x, y, x_test, y_test)
    last = DataSet.of(x.transpose(0, 2, 3, 1), np.array(y), x_test.transpose(0, 2, 3, 1), np.array(y_test, np.uint8))
    tensors = DataSet.of(torch.from_numpy(x), torch.tensor(y), torch.from_numpy(x_test), torch.tensor(y_test))
    assert (last.train.x == x).all()
    assert first.digest == last.digest == tensors.digest
    assert DataSet.of(x[:, 0], y, x_test[:, 0], y_test).train.x.shape == (4, 1, 5, 6)
    half = DataSet.of(torch.ones(2, 3).bfloat16(), [0, 1], torch.ones(2, 3).half(), [0, 1])
    assert half.train.x.dtype == np.float32


def test_the_digest_depends_on_all_that_matters_and_not_on_the_name() -> None:
    base = DataSet.of(X, Y, X_TEST, Y_TEST)
    moved, label = X.copy(), [*Y[:-1], "b"]
    moved[5, 1] += 1
    swapped = DataSet.of(X, Y, X_TEST, Y_TEST, classes=["a", "c", "b"])
    changed = [
        DataSet.of(moved, Y, X_TEST, Y_TEST),
        DataSet.of(X, label, X_TEST, Y_TEST),
        DataSet.of(X, Y, X_TEST + 1, Y_TEST),
        DataSet.of(X, Y, X_TEST, ["b", "a", "c"]),
        DataSet.of(X.reshape(6, 1, 2), Y, X_TEST.reshape(3, 1, 2), Y_TEST),
        DataSet.of(X, [{"a": "z"}.get(one, one) for one in Y], X_TEST, ["z", "b", "c"]),
        swapped,
        DataSet.of(X, base.train.y, X_TEST, base.test.y, classes=["a", "b", "d"]),
    ]
    assert len({base.digest, *(one.digest for one in changed)}) == 9
    assert DataSet.of(X, Y, X_TEST, Y_TEST, name="other").digest == base.digest
    assert len(base.digest) == 64


BAD = {
    "x_train of arrays has 6 samples, but y_train has 5 labels": (X, Y[:-1], X_TEST, Y_TEST),
    "x_test of arrays has 3 samples, but y_test has 4 labels": (X, Y, X_TEST, [*Y_TEST, "a"]),
    r"must have one shape and dtype, but are \(2,\) float32 and \(3,\) float32": (X, Y, np.zeros((3, 3)), Y_TEST),
    "images are uint8 and features floats": (X.astype(int), Y, X_TEST, Y_TEST),
    "features are floats": (X.astype(np.uint8), Y, X_TEST.astype(np.uint8), Y_TEST),
    "not finite in float32 at index 2": (np.where(X == 4, 1e300, X), Y, X_TEST, Y_TEST),
    r"at least one number each, but its shape is \(6,\)": (X[:, 0], Y, X_TEST, Y_TEST),
    r"must have one dimension.* \(6, 1\)": (X, np.array(Y)[:, None], X_TEST, Y_TEST),
    "y_train of arrays has the label 0.5 at index 0; it must be a whole number": (X, X[:, 0] + 0.5, X_TEST, Y_TEST),
    "y_train of arrays has no label at index 0": (X, [None, *Y[1:]], X_TEST, Y_TEST),
    "y_test of arrays has no label at index 2": (X, Y, X_TEST, [*Y_TEST[:2], ""]),
    "y_train of arrays has no label at index 1": (X, [0, np.nan, 1, 0, 1, 1], X_TEST, Y_TEST),
    "the label 'bb', which is not one of the 3 classes. Did you mean 'b'": (X, Y, X_TEST, ["a", "bb", "c"]),
    "The class 'c' of arrays has no test sample": (X, Y, X_TEST, ["a", "b", "a"]),
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_arrays_are_rejected(message: str) -> None:
    with pytest.raises(DataError, match=message):
        DataSet.of(*BAD[message])


def test_wrong_classes_are_rejected() -> None:
    with pytest.raises(DataError, match="The class 'd' of arrays has no training sample"):
        DataSet.of(X, Y, X_TEST, Y_TEST, classes=["a", "b", "c", "d"])
    with pytest.raises(DataError, match="'a' of arrays is named twice"):
        DataSet.of(X, Y, X_TEST, Y_TEST, classes=["a", "b", "a"])
    with pytest.raises(DataError, match="the label 2 at index 1, but the 2 classes are 0 to 1"):
        DataSet.of(X, [0, 2, 0, 0, 0, 1], X_TEST, [0, 1, 1], classes=["a", "b"])
    with pytest.raises(DataError, match="the label -1 at index 0"):
        DataSet.of(X, [0, 1, 0, 0, 0, 1], X_TEST, [-1, 1, 1], classes=["a", "b"])


def test_limited_keeps_the_first_of_each_class_in_their_order() -> None:
    data = DataSet.of(X, Y, X_TEST, Y_TEST)
    short = data.limited(train=1)
    assert short.train.x[:, 0].tolist() == [0, 2, 4]  # rows 0, 1 and 2
    assert data.limited(train=2).train.x[:, 0].tolist() == [0, 2, 4, 6, 8]  # not the third "a"
    assert short.test.x is data.test.x  # not copied
    assert short.digest != data.digest
    assert data.limited(train=100, test=100).digest == data.limited().digest == data.digest
    with pytest.raises(SettingsError, match="train=0"):
        data.limited(train=0)
