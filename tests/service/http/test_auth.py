"""Who may use which route, and when a request is refused."""

import json
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel

from evenkeel.service.http.app import make_app
from evenkeel.service.http.auth import OPEN, Guarded, needs
from evenkeel.service.service import Service
from evenkeel.service.store.keys import LOOK, SCOPES, Keyring, add_key, remove_key
from tests.helpers.services import Open
from tests.helpers.serving import VECTORS, Line, Served

BIG = 7_000_000  # bytes of a body
NEEDS = {
    "POST /v1/learn": "learn",
    "POST /v1/label": "learn",
    "POST /v1/predict": "predict",
    "DELETE /v1/examples/{id}": "admin",
    "POST /v1/forget": "admin",
    "GET /v1/set-aside": "admin",
    "POST /v1/set-aside/{command}": "admin",
    "GET /v1/versions": "admin",
    "POST /v1/checkpoint": "admin",
    "POST /v1/versions/{number}/rollback": "admin",
    "GET /v1/status": "any key",
    "GET /v1/history": "any key",
    "GET /metrics": "any key",
    "GET /healthz": "nothing",
    "GET /readyz": "nothing",
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A service that other machines could reach, and a key of each scope."""
    folder = tmp_path_factory.mktemp("keyed") / "model"
    Service(folder, None, VECTORS).close()
    keys = {scope: add_key(folder / "keys.json", scope, [scope]) for scope in SCOPES}
    with Served(folder, (), "--host", "0.0.0.0") as served:
        yield served, keys
        assert not served.failures()


# Who may do what


def status_of(served: Served, route: str, key: str | None) -> int:
    method, _, path = route.partition(" ")
    path = path.replace("{id}", "nothing").replace("{number}", "999")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    content = b"[" if method == "POST" else None  # invalid for every route, so that nothing is changed
    how = {**headers, "Content-Type": "application/json"}
    return served.client.request(method, path, content=content, headers=how).status_code


def test_every_route_requires_the_scope_it_needs(keyed: tuple[Served, dict[str, str]]) -> None:
    served, keys = keyed
    paths = served.get("/openapi.json")["paths"]
    routes = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    assert sorted(routes) == sorted(NEEDS), "Say in NEEDS what a new route needs."
    refused = {}
    for route, need in NEEDS.items():
        free, open_to_all = need == "nothing", need in ("nothing", "any key")
        expected = {None: 200 if free else 401, "ek_wrong": 200 if free else 401}
        statuses = {key: status_of(served, route, key) for key in (None, "ek_wrong")}
        if {key: status if status == 401 else 200 for key, status in statuses.items()} != expected:
            refused[route] = statuses
        for scope, key in keys.items():
            status = status_of(served, route, key)
            may = open_to_all or scope in (need, "admin")
            if (status not in (401, 403)) != may or status == 401:
                refused[f"{route} with {scope}"] = {scope: status}
    assert not refused


def test_a_key_is_accepted_in_one_form_only(keyed: tuple[Served, dict[str, str]]) -> None:
    served, keys = keyed
    key = keys["predict"]
    for header in (key, f"Basic {key}", f"Bearer {key}x", f"Bearer {key[:-1]}", "Bearer", f"Bearer {key},"):
        answer = served.client.get("/v1/status", headers={"Authorization": header})
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "key is required" in answer.json()["error"]
    assert served.client.get("/v1/status", params={"key": key}).status_code == 401
    assert served.client.get("/v1/status", headers={"Authorization": f"bearer {key}"}).status_code == 200


def test_a_key_works_from_when_it_is_added_until_it_is_removed(keyed: tuple[Served, dict[str, str]]) -> None:
    served, _ = keyed
    path = served.folder / "keys.json"
    for turn in range(3):
        secret = add_key(path, f"short-{turn}", ["predict"])
        time.sleep(LOOK)
        assert status_of(served, "GET /v1/status", secret) == 200
        remove_key(path, f"short-{turn}")
        time.sleep(LOOK)
        assert status_of(served, "GET /v1/status", secret) == 401


def test_keys_at_rest_are_hashes_in_a_file_for_the_owner_alone(keyed: tuple[Served, dict[str, str]]) -> None:
    served, keys = keyed
    path = served.folder / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(json.loads(path.read_text())) == len(keys)
    files = b"".join(each.read_bytes() for each in served.folder.rglob("*") if each.is_file())
    for secret in keys.values():
        assert secret.encode() not in served.log.read_bytes() + files
        assert secret.removeprefix("ek_").encode() not in served.log.read_bytes() + files


# A plain route


class Thing(BaseModel):
    size: int


class FoundThing(BaseModel):
    name: str
    size: int
    first: int


@pytest.fixture
def app(opened: Open) -> FastAPI:
    """An app with one more route, as anyone would write it, and a key of each scope, which is its own name."""
    service = opened()
    app = make_app(service, Keyring(service.model_folder.keys, open_without=False))
    app.state.keys = {scope: add_key(service.model_folder.keys, scope, [scope]) for scope in SCOPES}

    @app.post("/v1/things/{name}", dependencies=[needs("learn")])
    async def things(name: str, thing: Thing, first: int = 0) -> FoundThing:
        """Find a thing."""
        return FoundThing(name=name, size=thing.size, first=first)

    return app


def client(app: FastAPI, scope: str) -> TestClient:
    return TestClient(app, "http://127.0.0.1", headers={"Authorization": f"Bearer {app.state.keys.get(scope)}"})


def test_a_plain_route_takes_its_parameters_from_path_query_and_body(app: FastAPI) -> None:
    for scope in ("learn", "admin"):
        answer = client(app, scope).post("/v1/things/box?first=3", json={"size": 7})
        assert answer.json() == {"name": "box", "size": 7, "first": 3}


def test_a_plain_route_refuses_wrong_parameters_with_a_sentence(app: FastAPI) -> None:
    http = client(app, "learn")
    answer = http.post("/v1/things/box?first=many", json={"size": "large"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("query.first: Input should be a valid integer")
    assert "body.size" in answer.json()["error"]
    assert http.post("/v1/things/box", content=b'{"size": 7}').status_code == 415
    many = http.post("/v1/things/box", json={str(at): 0 for at in range(100_000)})
    assert "far too many fields" in many.json()["error"]
    app.state.most_examples = 10_000  # limits.examples
    assert "far too many fields" not in http.post("/v1/things/box", json={str(at): 0 for at in range(100_000)}).text


def test_a_plain_route_is_guarded_and_documented(app: FastAPI) -> None:
    assert client(app, "nobody").post("/v1/things/box", json={"size": 7}).status_code == 401
    assert client(app, "predict").post("/v1/things/box", json={"size": 7}).status_code == 403
    described = app.openapi()["paths"]["/v1/things/{name}"]["post"]
    assert [each["name"] for each in described["parameters"]] == ["name", "first"]
    assert described["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Thing")
    assert described["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/FoundThing")
    assert described["responses"]["401"]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
    assert described["security"] == [{"HTTPBearer": ["learn"]}]


def test_a_refusal_says_that_a_key_has_expired_or_that_there_is_none(opened: Open) -> None:
    service = opened(start=False)
    path = service.model_folder.keys
    http = TestClient(make_app(service, Keyring(path, open_without=True)), "http://127.0.0.1")
    assert http.get("/metrics").status_code == 200
    secret = add_key(path, "old", ["admin"], datetime.now(UTC))
    time.sleep(LOOK)
    refused = http.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    assert (refused.status_code, refused.json()) == (401, {"error": "This key has expired."})
    remove_key(path, "old")
    time.sleep(LOOK)
    for header in ({}, {"Authorization": f"Bearer {secret}"}):
        refused = http.get("/metrics", headers=header)
        assert refused.status_code == 401
        assert refused.json()["error"].startswith("This service has no keys, so nobody may use it. Add one: `evenkeel")
    assert http.get("/healthz").status_code == 200


def test_a_route_that_forgets_its_scope_cannot_be_added(app: FastAPI) -> None:
    async def forgetful() -> None: ...

    with pytest.raises(TypeError, match=r"The route /v1/secrets must declare its scope: dependencies=\[needs"):
        app.get("/v1/secrets")(forgetful)
    assert "/v1/secrets" not in [getattr(route, "path", "") for route in app.routes]


def test_every_route_declares_its_scope_or_that_it_is_open(app: FastAPI) -> None:
    documents = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/static-offline-docs"}
    others = {getattr(route, "path", str(route)) for route in app.routes if not isinstance(route, Guarded)}
    assert others == documents
    unguarded = {route.path for route in app.routes if isinstance(route, Guarded) and OPEN in route.dependencies}
    assert unguarded == {"/", "/pages/{name}", "/healthz", "/readyz"}


# Refused before the body is read


def head(path: str, key: str, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", *more]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


@pytest.mark.parametrize("path", ["/v1/learn", "/v1/label", "/v1/checkpoint"])  # the first reads its body itself
@pytest.mark.parametrize(("scope", "status"), [("nobody", b"401"), ("predict", b"403")])
@pytest.mark.parametrize("length", [f"Content-Length: {BIG}", "Transfer-Encoding: chunked"])
def test_a_bad_key_is_refused_while_nearly_all_of_a_large_body_is_unsent(
    keyed: tuple[Served, dict[str, str]], path: str, scope: str, status: bytes, length: str
) -> None:
    served, keys = keyed
    for expect in ([], ["Expect: 100-continue"]):
        with Line(served, head(path, keys.get(scope, "ek_wrong"), length, *expect) + b"3e8\r\n" + b" " * 1000) as line:
            answer = line.received()  # until the server closes: it does not wait for the rest
            assert answer.startswith(b"HTTP/1.1 " + status)  # and not with 100, which asks for the body
            assert b"connection: close" in answer.lower()
            assert line.pour(b" " * 100_000, 5 * BIG) < 5 * BIG  # received for a while, then no more


def test_a_client_that_sends_a_large_body_with_a_bad_key_still_gets_the_answer(
    keyed: tuple[Served, dict[str, str]],
) -> None:
    served, keys = keyed
    for key, path in product(("ek_wrong", keys["predict"]), ("/v1/learn", "/v1/label")):
        how = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        answer = httpx.post(served.url + path, content=b" " * BIG, headers=how)
        assert answer.status_code == (401 if key == "ek_wrong" else 403)
        assert "key" in answer.json()["error"]


def test_a_connection_is_kept_after_a_short_body_with_a_bad_key(keyed: tuple[Served, dict[str, str]]) -> None:
    served, _ = keyed
    request = head("/v1/learn", "ek_wrong", "Content-Length: 1000") + b" " * 1000
    with Line(served, request * 2 + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") as line:
        answers = line.received()
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"401", b"401", b"200"]


def test_a_good_key_is_asked_for_its_body(keyed: tuple[Served, dict[str, str]]) -> None:
    served, keys = keyed
    body = json.dumps({"x": [1, 0, 0, 0], "label": "a"}).encode()
    more = [f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close"]
    with Line(served, head("/v1/learn", keys["learn"], *more)) as line:
        assert line.socket.recv(100).startswith(b"HTTP/1.1 100 ")
        line.socket.sendall(body)
        assert line.received().startswith(b"HTTP/1.1 202 ")
