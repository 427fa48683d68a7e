"""Downloads from a small hub of our own, and without a network."""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenkeel.data import download
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures, write_cifar_parquet

COMMIT = "1234567890abcdef1234567890abcdef12345678"


class Hub(ThreadingHTTPServer):
    """As much of the Hugging Face hub as a download of one data set needs."""

    daemon_threads = True

    def __init__(self, repository: str, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.repository, self.files = repository, files
        self.sent: list[str] = []
        self.tokens: list[str] = []
        self.broken = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        hub = self.server
        hub.tokens += self.headers.get_all("Authorization", [])
        path = self.path.partition("?")[0]
        resolve = f"/datasets/{hub.repository}/resolve/{COMMIT}/"
        if path == f"/api/datasets/{hub.repository}":
            siblings = [{"rfilename": name, "size": len(content)} for name, content in hub.files.items()]
            self._send(json.dumps({"id": hub.repository, "sha": COMMIT, "siblings": siblings}).encode(), body)
        elif path.startswith(resolve) and path.removeprefix(resolve) in hub.files and not hub.broken:
            content = hub.files[path.removeprefix(resolve)]
            if body:
                hub.sent.append(path.removeprefix(resolve))
            self._send(content, body, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT})
        else:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, content: bytes, body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a small CIFAR-10, and files that are not needed."""
    write_cifar_parquet(tmp_path / "hub" / "plain_text", pictures(20), pictures(10, seed=1), shards=2)
    files = {f"plain_text/{file.name}": file.read_bytes() for file in (tmp_path / "hub" / "plain_text").iterdir()}
    with Hub("uoft-cs/cifar10", {"README.md": b"read me", **files}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("with_root", [True, False])
def test_what_is_downloaded_is_found(
    hub: Hub, tmp_path: Path, progress: ProgressLog, cache_folder: Path, with_root: bool
) -> None:
    root = tmp_path / "mine" if with_root else None
    folder = download.get("cifar10", root=root, progress=progress)
    assert folder == (tmp_path / "mine" if with_root else cache_folder / "data") / "cifar10"
    total = sum(len(content) for name, content in hub.files.items() if name.endswith(".parquet"))
    assert progress[0][0].startswith("Downloading cifar10: plain_text/")
    assert [done for _, done, _ in progress] == sorted(done for _, done, _ in progress)
    assert progress[-1] == ("Downloaded cifar10", total, total)
    data = SOURCES["cifar10"](root, progress=progress)
    assert (data.train.x == pictures(20)).all()
    assert not (folder / "README.md").exists()
    assert hub.tokens == []  # public data needs no token


def test_existing_files_are_not_fetched_again(hub: Hub, tmp_path: Path, progress: ProgressLog) -> None:
    for _ in range(2):
        download.get("cifar10", root=tmp_path, progress=progress)
    assert len(hub.sent) == 3


def test_an_interrupted_download_is_reported_and_resumed(hub: Hub, tmp_path: Path, progress: ProgressLog) -> None:
    hub.broken = True
    with pytest.raises(DataError, match=r"^The download of plain_text/.*parquet was interrupted \(.*by hand\.$"):
        download.get("cifar10", root=tmp_path, progress=progress)
    hub.broken = False
    download.get("cifar10", root=tmp_path, progress=progress)
    assert len(SOURCES["cifar10"](tmp_path, progress=progress).train) == 20


def test_a_hub_without_the_set_is_reported(hub: Hub, tmp_path: Path, progress: ProgressLog) -> None:
    with pytest.raises(DataError, match=r"^127.0.0.1:\d+ refused the request \(.*404"):
        download.get("cifar100", root=tmp_path, progress=progress)
    hub.files = {"README.md": b""}
    with pytest.raises(DataError, match=r"uoft-cs/cifar10 no longer has files plain_text/\*.parquet"):
        download.get("cifar10", root=tmp_path, progress=progress)


def test_a_missing_network_is_reported(tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", _no_names)  # where there is a network, the test hides it
    with pytest.raises(DataError, match=r"^huggingface.co could not be reached \(") as caught:
        download.get("cifar10", root=tmp_path, progress=progress)
    text = str(caught.value)
    assert "the files plain_text/*.parquet of https://huggingface.co/datasets/uoft-cs/cifar10" in text
    assert f"into {tmp_path / 'cifar10' / 'plain_text'} by hand" in text
    assert "\n" not in text
    assert list(tmp_path.iterdir()) == []


def _no_names(*_: object, **__: object) -> None:
    raise socket.gaierror(-2, "Name or service not known")


def test_a_hub_that_never_answers_times_out(
    tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.perf_counter()
        with pytest.raises(DataError, match=r"could not be reached"):
            download.get("tiny-imagenet", root=tmp_path, progress=progress)
        assert time.perf_counter() - start < 100  # by default, it would retry for minutes


def test_a_call_times_out_whatever_it_does() -> None:
    answered = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0.1 seconds"):
        download._within(0.1, answered.wait)
    answered.set()  # and its thread ends
    assert download._within(300, lambda: 7) == 7


def test_names_that_cannot_be_downloaded_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    with pytest.raises(DataError, match="The data set digits comes with scikit-learn; there is nothing to download"):
        download.get("digits", root=tmp_path, progress=progress)
    with pytest.raises(DataError, match=r"'cifar-10' cannot be downloaded; .* cifar10, .*Did you mean 'cifar10'"):
        download.get("cifar-10", root=tmp_path, progress=progress)


@pytest.mark.usefixtures("hub")
def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, progress: ProgressLog) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/cifar10 cannot be created for the download \(Not a directory\)"):
        download.get("cifar10", root=tmp_path / "file", progress=progress)
