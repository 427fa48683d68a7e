"""What is logged, and what never is; and metrics for alarms."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from evenkeel.service.http import logs
from evenkeel.service.http.app import make_app
from evenkeel.service.http.logs import ACCESS, AUDIT, ERRORS, hash_of, logging_to_stderr
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.keys import Keyring, add_key
from tests.helpers.services import examples, settle
from tests.helpers.serving import VECTORS

SECRET = "Gretchen"  # a label and an id that must not be logged
X = [0.12345, 0.54321, 7.65432, 3.33333]


class Logged:
    """A service in this process, a key for it, and what it logs."""

    def __init__(self, http: TestClient, service: Service, key: str, lines: list[dict[str, Any]]) -> None:
        self.http, self.service, self.key, self.lines = http, service, key, lines

    def send(self, method: str, path: str, body: Any = None, key: str | None = None) -> list[dict[str, Any]]:
        """Send a request, and return the lines that were logged."""
        self.lines.clear()
        header = {"Authorization": f"Bearer {key or self.key}"}
        self.status = self.http.request(method, path, json=body, headers=header).status_code
        return list(self.lines)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    service, lines = Service(tmp_path_factory.mktemp("logs") / "model", None, VECTORS), list[dict[str, Any]]()
    path = service.model_folder.keys
    key = add_key(path, "Faust", ["admin"])
    handler = logging.Handler()
    handler.setFormatter(logs._AsJson())
    handler.emit = lambda record: lines.append(json.loads(handler.format(record)))  # type: ignore[method-assign]
    for logger in (ACCESS, AUDIT, ERRORS):
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    with TestClient(make_app(service, Keyring(path, open_without=True)), "http://127.0.0.1") as http:
        service.learn(examples(32)).result()
        settle(service)
        yield Logged(http, service, key, lines)
    for logger in (ACCESS, AUDIT, ERRORS):
        logger.removeHandler(handler)


def only(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (line,) = [line for line in lines if line["kind"] == kind]
    return line


def test_a_request_is_logged_with_its_key_and_without_its_path(served: Logged) -> None:
    lines = served.send("DELETE", f"/v1/examples/{SECRET}?x={SECRET}")
    assert [line["kind"] for line in lines] == ["access"]  # it is unknown, so nothing was changed
    line = only(lines, "access")
    assert line.pop("ms") >= 0
    assert line.pop("time").endswith("+00:00")
    expected = {"kind": "access", "method": "DELETE", "route": "/v1/examples/{id}", "status": 404, "key": "Faust"}
    assert line == expected | {"address": "testclient"}
    assert only(served.send("GET", f"/{SECRET}"), "access")["route"] == "other"
    assert only(served.send("GET", "/metrics", key="ek_wrong"), "access")["key"] is None
    assert served.send("GET", "/healthz") == []


def audited(served: Logged, method: str, path: str, body: Any = None) -> dict[str, Any]:
    line = only(served.send(method, path, body), "audit")
    assert line.pop("key") == "Faust"
    return {name: value for name, value in line.items() if name not in ("time", "kind", "address")}


def test_each_change_is_logged_with_the_key_that_made_it(served: Logged) -> None:
    taught = audited(served, "POST", "/v1/learn", {"examples": [{"x": X, "label": SECRET, "id": SECRET}] * 2})
    assert taught == {"action": "POST /v1/learn", "examples": 1, "repeated": 1}
    (predicted,) = served.http.post(
        "/v1/predict", json={"x": X}, headers={"Authorization": f"Bearer {served.key}"}
    ).json()["predictions"]
    told = audited(served, "POST", "/v1/label", {"id": predicted["id"], "label": SECRET})
    assert told == {"action": "POST /v1/label", "examples": 1, "repeated": 0}
    settle(served.service)
    forgotten = audited(served, "DELETE", f"/v1/examples/{SECRET}")
    assert forgotten == {"action": "DELETE /v1/examples/{id}", "ids": [hash_of(SECRET)]}
    many = audited(served, "POST", "/v1/forget", {"ids": [predicted["id"], "unknown"]})
    assert many == {"action": "POST /v1/forget", "ids": [hash_of(predicted["id"])]}
    saved = audited(served, "POST", "/v1/checkpoint", {"note": SECRET})
    assert saved["action"] == "POST /v1/checkpoint"
    back = audited(served, "POST", f"/v1/versions/{saved['version']}/rollback")
    assert back == {
        "action": "POST /v1/versions/{number:int}/rollback",
        "back_to": saved["version"],
        "version": back["version"],
    }


def test_reading_and_refused_requests_are_not_changes(served: Logged) -> None:
    for method, path, body in (
        ("GET", "/v1/versions", None),
        ("GET", "/v1/status", None),
        ("POST", "/v1/predict", {"x": X}),
        ("POST", "/v1/learn", {"x": X}),
        ("POST", "/v1/versions/999999/rollback", None),
    ):
        assert [line["kind"] for line in served.send(method, path, body)] == ["access"], path


def test_no_sample_label_id_or_key_is_ever_logged(served: Logged) -> None:
    everything = []
    for method, path, body in (
        ("POST", "/v1/learn", {"x": X, "label": SECRET, "id": SECRET}),
        ("POST", "/v1/learn", {"x": X, "label": SECRET, SECRET: X}),
        ("POST", "/v1/learn", {"x": [*X, SECRET], "label": [SECRET]}),
        ("POST", "/v1/label", {"id": SECRET, "label": SECRET}),
        ("POST", "/v1/forget", {"ids": [SECRET]}),
        ("POST", "/v1/checkpoint", {"note": SECRET}),
        ("DELETE", f"/v1/examples/{SECRET}%0a%7b%22kind%22:%22audit%22%7d", None),
        ("GET", f"/{SECRET}%0d%0a{SECRET}", None),
    ):
        everything += served.send(method, path, body)
    assert len(everything) >= 8
    written = json.dumps(everything)
    for secret in (SECRET, served.key, served.key[3:], *map(str, X)):
        assert secret not in written


def test_a_failure_of_the_service_is_logged_as_an_error(served: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise JournalError("The disk is away.")

    monkeypatch.setattr(served.service, "save", fail)
    lines = served.send("POST", "/v1/checkpoint")
    assert served.status == 503
    assert {"error": "The disk is away.", "route": "/v1/checkpoint", "key": "Faust"}.items() <= only(
        lines, "error"
    ).items()


# Lines


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.fixture
def loggers() -> Iterator[None]:
    """Loggers are as they were after the test."""
    names = [ACCESS.name, AUDIT.name, ERRORS.name, *logs.FOREIGN]
    before = [(logging.getLogger(name), logging.getLogger(name).__dict__.copy()) for name in names]
    yield
    for logger, state in before:
        logger.__dict__.update(state)
        logger.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("loggers")
@pytest.mark.parametrize(("level", "kinds"), [("access", 3), ("audit", 2), ("error", 1)])
def test_the_option_says_what_is_written(level: Any, kinds: int, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(level):
        ACCESS.info({"a": 1})
        AUDIT.info({"a": 1})
        ERRORS.error({"a": 1})
    assert [line["kind"] for line in written(capsys)] == ["access", "audit", "error"][-kinds:]


@pytest.mark.usefixtures("loggers")
def test_nothing_in_a_line_can_look_like_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    evil = '"}\n{"kind": "audit"}\r\x1b[2J\u2028\x85\x00'
    with logging_to_stderr("access"):
        ERRORS.error({"error": evil})
    shown = capsys.readouterr().err
    assert shown.isascii()
    assert shown.isprintable() or shown.removesuffix("\n").isprintable()
    assert json.loads(shown)["error"] == evil


@pytest.mark.usefixtures("loggers")
def test_an_exception_is_logged_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError(f"cannot convert {SECRET}")

    with logging_to_stderr("error"):
        try:
            fail()
        except ValueError as error:
            logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=error)
        logging.getLogger("asyncio").info("not worth it")
    (line,) = written(capsys)
    assert (line["kind"], line["exception"], line["error"]) == ("error", "ValueError", "Exception in ASGI application")
    assert line["traceback"][-1].startswith("test_logs.py:")
    assert SECRET not in json.dumps(line)


def test_lines_that_nobody_reads_are_counted_and_hold_nothing_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "WAITING", 2)
    handler = logs._Lines()
    for at in range(5):
        handler.emit(logging.makeLogRecord({"name": "evenkeel.access", "msg": {"at": at}}))
    handler.write()
    handler.write()
    assert [line.get("at", line.get("lost")) for line in written(capsys)] == [0, 1, 3]


# Metrics


def test_metrics_for_alarms_are_there(served: Logged) -> None:
    served.service.learn(examples(3, seed=5)).result()
    settle(served.service)
    shown = served.http.get("/metrics", headers={"Authorization": f"Bearer {served.key}"}).text
    found = {each.name: each.value for family in text_string_to_metric_families(shown) for each in family.samples}
    counts = served.service.counts().result()
    assert found["evenkeel_accepted_total"] == counts["accepted"] > 32
    assert found["evenkeel_withdrawn_total"] == counts["withdrawn"]
    assert found["evenkeel_recovering"] == 0
    assert 0 <= found["evenkeel_checkpoint_age_seconds"] < 3600
    assert found["evenkeel_build_info"] == 1
    assert found["process_resident_memory_bytes"] > 10_000_000
