"""The HTTP interface as clients see it: who may do what, and what the responses are."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from PIL import Image
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.commands import call
from tests.helpers.hostile import EXAMPLES
from tests.helpers.processes import wait_for
from tests.helpers.serving import VECTORS, Hosted, Served, Server, encoded, text

FULL = (*VECTORS[:-1], "batches.size=8", "batches.wait=3600", "limits.queue=8", "limits.examples=8")


def example(at: int, label: str | int, **more: str) -> dict[str, Any]:
    """Return an example near the corner, one of four, that belongs to its label."""
    corner = sum(str(label).encode()) % 4
    return {"x": [float(place == corner) + at / 1000 for place in range(4)], "label": label, **more}


# Starting


def test_an_address_for_other_machines_needs_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [word for setting in VECTORS for word in ("--set", setting)]
    for host in ("0.0.0.0", "::"):
        code, _, errors = call(capsys, "serve", str(tmp_path / "model"), "--host", host, "--port", "0", *settings)
        assert code == 1
        assert "there are no keys: anyone could teach this model" in " ".join(errors.split())
        assert "Traceback" not in errors
    assert not (tmp_path / "model").exists()


def test_a_second_service_in_the_same_folder_is_refused_and_leaves_no_trace(
    vectors: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (vectors.folder / "service.toml").read_bytes()
    code, _, errors = call(capsys, "serve", str(vectors.folder), "--port", "0", "--set", "limits.queue=7")
    assert code == 1
    assert "Another service or command is using" in " ".join(errors.split())
    assert "Traceback" not in errors
    assert (vectors.folder / "service.toml").read_bytes() == before
    assert vectors.get("/readyz") == {"status": "ready"}


# Teaching and predicting


def counted(status: Any) -> dict[str, int]:
    """Return the numbers of examples, after a check that they add up."""
    numbers: dict[str, int] = status["examples"]
    parts = ("learned", "waiting", "refused", "withdrawn")
    assert numbers["accepted"] == sum(numbers[part] for part in parts), numbers
    assert status["queue"]["waiting"] == numbers["waiting"]
    assert sum(each["learned"] for each in status["classes"]) == numbers["learned"]
    assert sum(each["memory"] for each in status["classes"]) == status["memory"]["samples"]
    return numbers


def test_one_example_or_many_can_be_taught(vectors: Served) -> None:
    before = counted(vectors.settled())["learned"]
    one = vectors.post("/v1/learn", example(1, "a", id="alone"), 202)
    many = vectors.post("/v1/learn", {"examples": [example(2, "a", id="first"), example(3, "b")]}, 202)
    assert (one["accepted"], one["repeated"], one["ids"]) == (1, 0, ["alone"])
    assert (many["accepted"], many["repeated"]) == (2, 0)
    assert many["ids"][0] == "first"
    assert len(set(many["ids"])) == 2
    assert counted(vectors.settled())["learned"] == before + 3


def test_a_repeated_example_is_not_learned_twice(vectors: Served) -> None:
    before = counted(vectors.settled())
    thrice = {"examples": [example(7, "a", id="again")] * 3}
    answers = [vectors.post("/v1/learn", thrice) for _ in range(2)]
    counted(vectors.settled())
    answers.append(vectors.post("/v1/learn", example(7, "a", id="again")))
    assert [(each["accepted"], each["repeated"]) for each in answers] == [(1, 2), (0, 3), (0, 1)]
    after = counted(vectors.settled())
    assert after["accepted"] == before["accepted"] + 1
    assert after["learned"] == before["learned"] + 1


@pytest.mark.parametrize("other", [{"label": "b"}, {"x": [0.0, 0.0, 0.0, 0.5]}, {"label": 1}])
def test_a_known_id_with_other_content_is_a_conflict_and_nothing_is_accepted(
    vectors: Served, other: dict[str, Any]
) -> None:
    vectors.post("/v1/learn", example(8, "1", id="taken"))
    before = counted(vectors.settled())
    mixed = [example(9, "a", id="fresh"), example(8, "1", id="taken") | other, example(10, "a")]
    assert "'taken'" in vectors.post("/v1/learn", {"examples": mixed}, 409)["error"]
    within = [example(9, "a", id="fresh"), example(9, "a", id="fresh") | other]
    assert "'fresh'" in vectors.post("/v1/learn", {"examples": within}, 409)["error"]
    assert counted(vectors.settled()) == before
    missing = vectors.client.delete("/v1/examples/fresh")
    assert missing.status_code == 404, missing.text


def test_predictions_are_labelled_later_and_counted(vectors: Served) -> None:
    before = vectors.settled()
    samples = {"examples": [{"x": example(at, "ab"[at % 2])["x"]} for at in range(4)]}
    predictions = vectors.post("/v1/predict", samples)["predictions"]
    right = {"id": predictions[0]["id"], "label": predictions[0]["label"]}
    wrong = {"id": predictions[1]["id"], "label": "a" if predictions[1]["label"] == "b" else "b"}
    first = vectors.post("/v1/label", {"labels": [right, wrong]}, 202)
    assert (first["accepted"], first["repeated"], first["ids"]) == (2, 0, [right["id"], wrong["id"]])
    alone = vectors.post("/v1/label", {"id": predictions[2]["id"], "label": predictions[2]["label"]}, 202)
    assert alone["accepted"] == 1
    after = vectors.settled()
    assert counted(after)["learned"] == counted(before)["learned"] + 3
    for name, more in (("labelled", 3), ("right", 2)):
        assert after["accuracy"]["answered"][name] == before["accuracy"]["answered"][name] + more
    assert 0 < after["accuracy"]["answered"]["recent"] < 100

    again = vectors.post("/v1/label", right, 202)
    assert (again["accepted"], again["repeated"]) == (0, 1)
    fresh = {"id": predictions[3]["id"], "label": "a"}
    assert "before" in vectors.post("/v1/label", {"labels": [fresh, right | {"label": "new"}]}, 409)["error"]
    assert "no prediction" in vectors.post("/v1/label", {"labels": [fresh, {"id": "no", "label": "a"}]}, 404)["error"]
    assert vectors.settled()["accuracy"] == after["accuracy"]
    assert counted(vectors.settled()) == counted(after)


def test_a_prediction_that_is_not_kept_has_no_id(vectors: Served) -> None:
    (only,) = vectors.post("/v1/predict", {"x": [1, 0, 0, 0], "keep": False})["predictions"]
    assert only["id"] is None


def test_probabilities_are_those_of_the_likeliest_labels(vectors: Served) -> None:
    known = len(vectors.settled()["classes"])
    for top in (1, 2, 1000):
        (answer,) = vectors.post("/v1/predict", {"x": [1, 0, 0, 0], "top": top})["predictions"]
        likely = [each["probability"] for each in answer["probabilities"]]
        assert len(likely) == min(top, known)
        assert likely == sorted(likely, reverse=True)
        assert answer["label"] == answer["probabilities"][0]["label"]
    assert sum(likely) == pytest.approx(1)


def test_text_and_number_are_different_labels(vectors: Served) -> None:
    vectors.post("/v1/learn", {"examples": [example(1, "17"), example(2, 17), example(3, -(2**63))]})
    labels = [each["label"] for each in vectors.settled()["classes"]]
    assert {"17", 17, -(2**63)} <= set(labels)
    (answer,) = vectors.post("/v1/predict", {"x": [1, 0, 0, 0], "top": 1000})["predictions"]
    assert {"17", 17, -(2**63)} <= {each["label"] for each in answer["probabilities"]}


def forgotten(served: Server, id: str) -> tuple[int, Any]:
    answer = served.client.delete(f"/v1/examples/{id}")
    return answer.status_code, answer.json()


def test_learned_and_predicted_ids_are_forgotten_and_unknown_ones_refused(vectors: Served) -> None:
    vectors.post("/v1/learn", example(4, "rare", id="learned"))
    before = vectors.settled()
    status, answer = forgotten(vectors, "learned")
    assert status == 200
    assert (answer["waiting"], answer["prediction"]) == (False, False)
    assert answer["memory"] in (0, 1)  # the reservoir may not have stored it
    after = vectors.settled()
    assert after["memory"]["samples"] == before["memory"]["samples"] - answer["memory"]
    assert counted(after) == counted(before)  # it still counts as learned
    assert forgotten(vectors, "learned") == (200, answer)  # as the first time

    (predicted,) = vectors.post("/v1/predict", {"x": [1, 0, 0, 0]})["predictions"]
    expected = {"waiting": False, "memory": 0, "versions": 0, "prediction": True}
    assert forgotten(vectors, predicted["id"]) == (200, expected)
    assert vectors.post("/v1/label", {"id": predicted["id"], "label": "a"}, 404)["error"]
    status, answer = forgotten(vectors, "never-seen")
    assert status == 404
    assert "never-seen" in answer["error"]


def predicted_corners(served: Server) -> Any:
    """Return the predictions for the four corners."""
    corners = [{"x": [float(place == corner) for place in range(4)]} for corner in range(4)]
    return served.post("/v1/predict", {"examples": corners, "top": 1000, "keep": False})


def test_after_a_rollback_the_predictions_are_those_of_before(tmp_path: Path) -> None:
    with Hosted(tmp_path / "model") as served:  # its own, which loses a label
        served.post("/v1/learn", {"examples": [example(at, "ab"[at % 2]) for at in range(8)]})
        served.settled()
        saved = served.post("/v1/checkpoint", {"note": "good"}, 200)
        assert (saved["asked"], saved["note"]) == (True, "good")
        before = predicted_corners(served)
        assert before["version"] == saved["number"]
        served.post("/v1/learn", {"examples": [example(at, "later") for at in range(40)]})
        served.settled()
        assert "later" in str(predicted_corners(served))
        served.post("/v1/checkpoint")
        back = served.post(f"/v1/versions/{saved['number']}/rollback", None, 200)
        after = predicted_corners(served)
        assert after["predictions"] == before["predictions"]
        assert after["version"] == back["number"] > saved["number"] + 1
        listed = served.get("/v1/versions")
        assert listed["current"] == back["number"]
        assert {each["number"]: each["note"] for each in listed["versions"]}[saved["number"]] == "good"
        counted(served.settled())
        served.post("/v1/learn", example(5, "a"))
        assert served.settled()["version"] == back["number"] + 1


def test_a_rollback_to_an_unknown_version_is_refused(vectors: Served) -> None:
    before = vectors.get("/v1/versions")
    assert "no version 4711" in vectors.post("/v1/versions/4711/rollback", None, 404)["error"]
    assert vectors.post("/v1/versions/-1/rollback", None, 404)["error"]
    assert vectors.post("/v1/versions/last/rollback", None, 404)["error"]
    assert vectors.get("/v1/versions") == before


# Monitoring


def test_metrics_can_be_parsed_and_equal_the_status(vectors: Served) -> None:
    for label in ("early", "late"):
        for start in range(0, 100, EXAMPLES):
            many = [example(at, label) for at in range(start, start + EXAMPLES)]
            vectors.post("/v1/learn", {"examples": many})
    status = vectors.settled()
    families = {family.name: family for family in read_metrics(vectors)}
    assert value(families["evenkeel_queue"]) == 0
    assert value(families["evenkeel_queue_limit"]) == status["queue"]["limit"] == 10_000
    assert value(families["evenkeel_learned"]) == counted(status)["learned"]
    assert value(families["evenkeel_set_aside"]) == counted(status)["refused"]
    assert families["evenkeel_set_aside"].type == "gauge"  # it falls when they are retried or dropped
    assert value(families["evenkeel_accuracy_before_learning"]) == status["accuracy"]["before_learning"]["recent"]
    assert value(families["evenkeel_recency_bias"]) == status["recency_bias"]
    assert -100 <= status["recency_bias"] <= 100
    assert value(families["evenkeel_version"]) == status["version"]
    assert value(families["evenkeel_learning"]) == 1
    latency = families["evenkeel_request_seconds"]
    assert latency.type == "histogram"
    learned = [each for each in latency.samples if each.labels.get("route") == "/v1/learn"]
    (count,) = (each.value for each in learned if each.name.endswith("_count") and each.labels["status"] == "202")
    endless = [each.value for each in learned if each.labels.get("le") == "+Inf" and each.labels["status"] == "202"]
    assert endless == [count]
    assert count >= 4


def test_unknown_paths_and_ids_make_no_new_series(vectors: Served) -> None:
    for at in range(3):
        vectors.client.get(f"/no/such/page/{at}")
        vectors.client.delete(f"/v1/examples/none-{at}")
    routes = {
        sample.labels["route"]
        for family in read_metrics(vectors)
        if family.name == "evenkeel_request_seconds"
        for sample in family.samples
    }
    assert "/v1/examples/{id}" in routes
    assert not [route for route in routes if "none-" in route or "such" in route]


def read_metrics(served: Server) -> list[Metric]:
    answer = served.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return list(text_string_to_metric_families(answer.text))


def value(family: Metric) -> float:
    (sample,) = family.samples
    return float(sample.value)


def test_the_history_grows_with_what_is_learned(vectors: Served) -> None:
    vectors.post("/v1/learn", example(6, "a"))
    status = vectors.settled()
    learned = counted(status)["learned"]
    wait_for(lambda: vectors.get("/v1/history")["points"][-1]["learned"] >= learned)  # points are some seconds apart
    points = vectors.get("/v1/history")["points"]
    assert [point["learned"] for point in points] == sorted(point["learned"] for point in points)
    assert points[-1]["learned"] == counted(status)["learned"]
    assert {"time", "accuracy", "answered", "recency_bias", "queue", "rate"} <= points[-1].keys()


def test_an_example_that_no_longer_waits_affects_predictions(vectors: Served) -> None:
    for turn in range(5):
        vectors.post("/v1/learn", example(turn, f"turn-{turn}"))
        vectors.settled()
        (answer,) = vectors.post("/v1/predict", {"x": [1, 0, 0, 0], "top": 1000, "keep": False})["predictions"]
        assert f"turn-{turn}" in [each["label"] for each in answer["probabilities"]]


def test_it_is_healthy_and_ready(vectors: Served) -> None:
    assert vectors.get("/healthz") == {"status": "ok"}
    assert vectors.get("/readyz") == {"status": "ready"}


def test_no_page_loads_anything_from_another_host(vectors: Served) -> None:
    for page in ("/", "/docs"):
        answer = vectors.client.get(page)
        assert answer.headers["content-type"].startswith("text/html")
        loads = re.findall(r"<(?:script|link|img|iframe)[^>]*?(?:src|href)\s*=\s*[\"']([^\"']+)", answer.text)
        assert len(loads) >= 3
        for address in loads:
            assert not urlsplit(address).netloc, address
            if not address.startswith("data:"):
                assert vectors.client.get(urljoin(page, address)).status_code == 200, address
        if page == "/docs":
            assert re.findall(r"url: '([^']+)'", answer.text) == ["/openapi.json"]
        else:
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'self';")
            assert not re.search(r"https?:", policy)


# Images


def answered(served: Served, **how: Any) -> list[Any]:
    answer = served.client.post("/v1/predict", **how)
    assert answer.status_code == 200, answer.text
    return [each["probabilities"] for each in answer.json()["predictions"]]


def probabilities(answers: list[Any]) -> list[float]:
    """Return all probabilities, whose last digit may depend on how many samples are predicted at once."""
    return [each["probability"] for likely in answers for each in likely]


def noisy(mode: str, width: int, height: int) -> Image.Image:
    depth = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, depth), dtype=np.uint8)
    return Image.fromarray(pixels.squeeze(-1) if depth == 1 else pixels, mode=None)


def test_an_image_gets_the_same_answer_however_it_is_sent(pictures: Served) -> None:
    for kind, format in (("png", "PNG"), ("jpeg", "JPEG")):
        data = encoded(noisy("L", 8, 8), format)
        by_text = answered(pictures, json={"image": text(data)})
        assert answered(pictures, files={"image": ("picture", data)}) == by_text
        assert answered(pictures, json={"image": f"data:image/{kind};base64,{text(data)}"}) == by_text
        twice = answered(pictures, json={"examples": [{"image": text(data)}] * 2})
        assert answered(pictures, files=[("image", ("a", data)), ("image", ("b", data))]) == twice
        assert probabilities(twice) == pytest.approx(probabilities(by_text * 2), abs=1e-6)
    other = encoded(Image.new("L", (8, 8), 255))
    assert answered(pictures, json={"image": text(other)}) != by_text


def test_gray_colour_and_transparent_images_of_any_size_are_accepted(pictures: Served) -> None:
    gray, wide = noisy("L", 8, 8), noisy("RGB", 40, 24)
    expected = answered(pictures, json={"image": text(encoded(gray))})
    for mode in ("RGB", "RGBA", "LA"):
        assert answered(pictures, json={"image": text(encoded(gray.convert(mode)))}) == expected, mode
    small = wide.convert("L").resize((8, 8), Image.Resampling.BILINEAR)
    expected = answered(pictures, json={"image": text(encoded(small))})
    for mode in ("RGB", "RGBA"):
        assert answered(pictures, files={"image": encoded(wide.convert(mode))}) == expected, mode


@pytest.mark.parametrize("format", ["GIF", "BMP", "WEBP"])
def test_other_formats_are_decoded_to_the_same_pixels(pictures: Served, format: str) -> None:
    image = Image.new("RGB", (12, 12), (120, 120, 120))
    expected = answered(pictures, files={"image": encoded(image)})
    how = {"lossless": True} if format == "WEBP" else {}
    assert answered(pictures, files={"image": encoded(image, format, **how)}) == expected


def test_files_are_taught_with_labels_and_ids(pictures: Served) -> None:
    before = counted(pictures.settled())["learned"]
    dark, light = (encoded(Image.new("RGB", (30, 20), (shade,) * 3)) for shade in (10, 240))
    one = pictures.client.post("/v1/learn", files={"image": ("a.png", dark)}, data={"label": "dark"})
    assert one.status_code == 202, one.text
    files = [("image", ("a.png", dark)), ("image", ("b.jpg", light))]
    form = {"label": ["dark", "light"], "id": ["file-a", "file-b"]}
    for accepted in (2, 0):
        many = pictures.client.post("/v1/learn", files=files, data=form)
        assert many.status_code == 202, many.text
        assert (many.json()["accepted"], many.json()["ids"]) == (accepted, form["id"])
    as_text = {"image": text(light), "label": "light", "id": "file-b"}  # recognized by its pixels, however it is sent
    assert pictures.post("/v1/learn", as_text, 202)["repeated"] == 1
    assert pictures.client.post("/v1/learn", files=files, data=form | {"label": ["light", "dark"]}).status_code == 409
    assert counted(pictures.settled())["learned"] == before + 3


@pytest.mark.parametrize("form", [{}, {"label": ["a"]}, {"label": ["a"] * 3}, {"label": ["a"] * 2, "id": ["x"]}])
def test_files_that_lack_labels_or_ids_are_refused(pictures: Served, form: dict[str, list[str]]) -> None:
    before = counted(pictures.settled())
    data = encoded(noisy("L", 8, 8))
    answer = pictures.client.post("/v1/learn", files=[("image", ("a", data)), ("image", ("b", data))], data=form)
    assert answer.status_code == 422
    assert "2 images came with" in answer.json()["error"]
    assert counted(pictures.settled()) == before


def test_a_learned_image_is_recognized(pictures: Served) -> None:
    shades = {"night": 15, "day": 235}
    samples = [{"image": text(encoded(Image.new("L", (8, 8), shades[label]))), "label": label} for label in shades]
    for _ in range(6):  # far more than it needs, however the batches are cut
        pictures.post("/v1/learn", {"examples": samples * 20})
    pictures.settled()
    for label, shade in shades.items():
        data = encoded(Image.new("RGB", (16, 16), (shade,) * 3))
        (likely,) = answered(pictures, files={"image": data}, data={"top": "1"})
        assert [each["label"] for each in likely] == [label]


def test_an_image_is_labelled_later(pictures: Served) -> None:
    before = counted(pictures.settled())["learned"]
    answer = pictures.client.post("/v1/predict", files={"image": encoded(noisy("RGB", 9, 9))})
    (predicted,) = answer.json()["predictions"]
    assert pictures.post("/v1/label", {"id": predicted["id"], "label": "dark"}, 202)["accepted"] == 1
    assert counted(pictures.settled())["learned"] == before + 1


# A full queue


def test_a_full_queue_says_when_to_retry_and_predictions_continue(tmp_path: Path) -> None:
    with Hosted(tmp_path / "model", FULL) as served:
        assert "Nothing has been learned" in served.post("/v1/predict", {"x": [1, 0, 0, 0]}, 409)["error"]
        assert value({each.name: each for each in read_metrics(served)}["evenkeel_recency_bias"]) == 0
        served.post("/v1/learn", {"examples": [example(at, "ab"[at % 2]) for at in range(8)]})
        served.settled()
        rest = {"examples": [example(at, "a", id=f"rest-{at}") for at in range(7)]}
        assert served.post("/v1/learn", rest)["waiting"] == 7
        more = {"examples": [example(at, "unheard-of", id=f"more-{at}") for at in range(2)]}
        full = served.client.post("/v1/learn", json=more)
        assert full.status_code == 429
        assert 1 <= int(full.headers["retry-after"]) <= 60
        assert "7 examples are waiting" in full.json()["error"]
        (predicted,) = served.post("/v1/predict", {"x": [1, 0, 0, 0]})["predictions"]
        served.post("/v1/label", {"labels": [{"id": predicted["id"], "label": "a"}] * 2}, 429)
        numbers = counted(served.get("/v1/status"))
        assert (numbers["accepted"], numbers["waiting"]) == (15, 7)

        nothing = {"memory": 0, "versions": 0, "prediction": False}
        assert forgotten(served, "rest-3") == (200, {"waiting": True, **nothing})
        assert forgotten(served, "rest-3") == (200, {"waiting": True, **nothing})  # as the first time
        numbers = counted(served.get("/v1/status"))
        assert (numbers["waiting"], numbers["withdrawn"], numbers["learned"]) == (6, 1, 8)
        # What was refused is accepted now; it fills the batch, which is then learned.
        assert served.post("/v1/learn", more, 202)["accepted"] == 2
        numbers = counted(served.settled())
        assert (numbers["accepted"], numbers["learned"], numbers["withdrawn"]) == (17, 16, 1)
