"""The learner in a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import torch

from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.service import Service
from tests.helpers.processes import LONG, wait_for
from tests.helpers.services import adds_up, examples, settle
from tests.helpers.serving import VECTORS


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    threads = torch.get_num_threads()
    one = Service(tmp_path / "model", None, [*VECTORS, "batches.size=8"], apart=True)
    one.start()
    yield one
    one.close()
    torch.set_num_threads(threads)


def learner_of(service: Service) -> Learner:
    return Learner.load(service.model_folder.version(service.model_folder.versions()[-1]))


def killed(service: Service) -> int:
    """Kill the learner's process, and return its id."""
    assert service.supervisor is not None
    supervisor = service.supervisor
    wait_for(lambda: supervisor.process is not None and not supervisor.report.recovering)
    process = supervisor.process
    assert process is not None
    os.kill(process, signal.SIGKILL)
    return process


def test_a_learner_that_is_killed_comes_back_and_predictions_are_unaffected(service: Service, tmp_path: Path) -> None:
    service.learn(examples(80, own="a")).result()
    settle(service)
    version, x = service.published.version, [examples(1)[0].x]
    before = service.predict(x)[1]
    service.learn(examples(80, own="b", seed=1)).result()
    first = killed(service)
    assert service.predict(x)[0] >= version
    if service.predict(x)[0] == version:
        assert service.predict(x)[1] == before
    settle(service)
    assert service.supervisor is not None
    assert service.supervisor.process not in (None, first)
    assert service.problem is None
    assert adds_up(service)
    twin = Service(tmp_path / "twin", None, [*VECTORS, "batches.size=8"])
    twin.learn(examples(80, own="a")).result()
    twin.learn(examples(80, own="b", seed=1)).result()
    twin.start()
    settle(twin)
    twin.close()
    assert not differences(snapshot(learner_of(service)), snapshot(learner_of(twin)))


def test_a_service_can_be_stopped_while_its_learner_is_being_restarted(service: Service) -> None:
    killed(service)
    closing = Thread(target=service.close, daemon=True)
    closing.start()
    wait_for(lambda: not closing.is_alive())
    assert service.supervisor is not None
    assert not service.supervisor.alive


ABANDONING = f"""
from pathlib import Path
from evenkeel.service.service import Service

if __name__ == "__main__":
    service = Service(Path("model"), None, {VECTORS!r}, apart=True)
    service.start()
    print(service.supervisor.process, flush=True)
    raise RuntimeError("nobody closes it")
"""


def test_a_program_that_forgets_to_close_its_service_still_ends(tmp_path: Path) -> None:
    """In an interpreter of its own: a forked process ends otherwise."""
    script = tmp_path / "program.py"
    script.write_text(ABANDONING)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert "nobody closes it" in ended.stderr
    learner = Path(f"/proc/{int(ended.stdout)}")
    wait_for(lambda: not learner.exists())  # its parent, the fork server, may not have noticed yet


def test_both_processes_import_torch_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from evenkeel.cli import service\n"
        "from evenkeel.service.worker import process\n"
        "def prepared():\n"
        "    process.prepare_process()\n"
        "    sys.exit('torch' in sys.modules)\n"
        "service.prepare_process = prepared\n"
        "service.serve_command(Path('model'))\n"
    )
    # The other process is running, and importing, before this one has begun to.
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=LONG, check=False).returncode == 0
