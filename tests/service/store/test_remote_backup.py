"""Backups in a bucket: a local server speaks S3."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import DataError, SettingsError
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.store.backup import back_up, restore
from evenkeel.service.store.check import check
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.commands import call
from tests.helpers.services import Open, adds_up, examples, learner_of, teach

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of an empty bucket on this machine."""
    pytest.importorskip("s3fs")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # the address is another one for each test
    name = f"backups-{port}"  # the server's memory is that of the process
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_backup_in_a_bucket_continues_with_the_same_bits(
    opened: Open, tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = opened("batches.size=4", "batches.wait=3600")
    teach(service, examples(8, own="e"))
    service.learn(examples(2, own="w", seed=5)).result()
    target = f"{bucket}/monday.tar"
    code, shown, _ = call(capsys, "backup", str(service.model_folder.path), target)
    assert code == 0
    assert f"{target}: version 2, 2 examples are waiting" in shown
    teach(service, examples(6, own="later-", seed=7))
    code, _, _ = call(capsys, "restore", target, str(tmp_path / "again"))
    assert code == 0
    assert list(check(ModelFolder(tmp_path / "again"))) == []
    again = opened(folder="again")
    assert again.waiting == 2
    teach(again, examples(6, own="later-", seed=7))
    assert not differences(snapshot(learner_of(service)), snapshot(learner_of(again)))
    assert adds_up(again)


def test_a_backup_in_a_bucket_is_never_overwritten_nor_half_uploaded(
    opened: Open, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    service, target = opened(), f"{bucket}/monday.tar"
    teach(service, examples(8))
    with monkeypatch.context() as broken:
        broken.setattr("s3fs.core.S3FileSystem._call_s3", _interrupted(s3fs.S3FileSystem._call_s3))
        with pytest.raises(DataError, match="cannot be written: The network is gone"):
            back_up(service.model_folder, target)
    assert not s3fs.S3FileSystem().exists(target)
    back_up(service.model_folder, target)
    with pytest.raises(SettingsError, match="Choose a new name"):
        back_up(service.model_folder, target)
    with pytest.raises(DataError, match="cannot be read: The specified key does not exist"):
        restore(f"{bucket}/nothing.tar", tmp_path / "again")
    with pytest.raises(DataError, match="cannot be written"):
        back_up(service.model_folder, "s3://no-such-bucket/monday.tar")


def _interrupted(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let the end of an upload fail."""

    async def fail(self: Any, method: Any, *arguments: Any, **settings: Any) -> Any:
        if method in ("put_object", "complete_multipart_upload"):
            raise ConnectionError("The network is gone")
        return await call(self, method, *arguments, **settings)

    return fail
