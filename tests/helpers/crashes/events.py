"""What happens to a service: drawn from one seed, one after another, while clients send requests."""

import logging
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import httpx

from evenkeel.service.service import Service
from evenkeel.service.store.check import check
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.crashes.clients import FEATURES, Clients
from tests.helpers.crashes.damages import ALL, SURVIVED, Damages, contents, see
from tests.helpers.crashes.running import SETTINGS, Running, in_the_background
from tests.helpers.crashes.twin import Twin, keep_diary
from tests.helpers.processes import start, wait_for
from tests.helpers.services import settle

KILLED = 0.5  # how often a kill comes in the middle of what an admin does


class Ordeal:
    """A service under load, everything that is done to it, and its twin. `requests`: of each client, at most."""

    def __init__(self, scratch: Path, seed: int, requests: int = 1_000_000) -> None:
        self.scratch, self.rng = scratch, random.Random(seed)
        self.counts, self.forgets = Counter[str](), list[list[str]]()
        self.damages, self.damages_in_place = Damages(ALL, self.rng), Damages(SURVIVED, self.rng)
        Service(scratch / "model", None, SETTINGS).close()
        self.folder = ModelFolder(scratch / "model")
        keep_diary(self.folder.journal)
        self.running = Running(self.folder.path)
        self.clients = Clients(self.running.url, seed, requests)
        self.twin = Twin(self.folder.read(), self.clients, self.forgets)

    @property
    def events(self) -> dict[Callable[[], None], int]:
        """Return what may happen, and how often."""
        return {
            self.kill: 5,
            self.kill_learner: 2,
            self.kill_both: 1,
            self.stop: 1,
            self.save: 1,
            self.roll_back: 2,
            self.forget: 2,
            self.take_away: 1,
            self.back_up: 2,
            self.damage_a_copy: 6,
            self.damage_in_place: 6,
        }

    def until(self, kills: int, deadline: float) -> Iterator[Callable[[], None]]:
        """Draw events until so many processes were killed, or it is that time."""
        while self.running.kills.all < kills and time.monotonic() < deadline:
            yield self.rng.choices(list(self.events), list(self.events.values()))[0]

    def run(self, events: Iterable[Callable[[], None]]) -> None:
        """Let these things happen while clients send requests."""
        self.running.start()
        self.clients.start()
        for event in events:
            logging.info("%s kills: %s", self.running.kills.all, event.__name__)
            event()
            self.counts[event.__name__] += 1
            assert not self.clients.errors, self.clients.errors[:3]

    # Kills

    def kill(self) -> None:
        """Kill the service: when it has caught up, or at any moment of its start."""
        if self.rng.random() < 0.6:
            self._wait_a_while()
        else:
            time.sleep(self.rng.uniform(0, 2))
        self.running.kill()

    def kill_learner(self) -> None:
        self._wait_a_while()
        self.running.kill_learner()

    def kill_both(self) -> None:
        self._wait_a_while()
        self.running.kill_learner()
        time.sleep(self.rng.uniform(0, 1))
        self.running.kill()

    def stop(self) -> None:
        self._wait_a_while()
        self.running.stop()

    def _wait_a_while(self) -> None:
        self.running.wait_ready()
        time.sleep(self.rng.uniform(0, 1))

    # What admins do

    def save(self) -> None:
        self._maybe_killed(lambda: self.clients.request("POST", "/v1/checkpoint", {"note": "by hand"}))

    def roll_back(self) -> None:
        place = self.rng.random()
        self._maybe_killed(lambda: self._roll_back(place))

    def _roll_back(self, place: float) -> None:
        """Return to one of the versions that are kept. If it is retired meanwhile, choose a newer one."""
        answer = None
        while answer is None:
            kept = self.clients.request("GET", "/v1/versions")["versions"]
            number = kept[int(place * len(kept))]["number"]
            answer = self.clients.request("POST", f"/v1/versions/{number}/rollback", fine=(404,))
            place = (place + 1) / 2

    def forget(self) -> None:
        """Forget many at once, some of them waiting; a repeated request is answered as the first."""
        known = sorted(self.clients.known.difference(*self.forgets))
        if not known:
            return
        chosen = {*known[-5:], *self.rng.sample(known, min(len(known), self.rng.randint(1, 60)))}
        self.forgets.append(sorted(chosen))
        answers = list[object]()
        self._maybe_killed(lambda: answers.append(self._forget(self.forgets[-1])))
        assert self._forget(self.forgets[-1]) == answers[0]

    def _forget(self, ids: Sequence[str]) -> object:
        answer = self.clients.request("POST", "/v1/forget", {"ids": ids})
        assert not answer["unknown"], answer["unknown"][:3]
        return answer

    def _maybe_killed(self, request: Callable[[], object]) -> None:
        """Send a request that is repeated until it is answered; perhaps kill someone meanwhile."""
        self.running.wait_ready()
        with in_the_background(request):
            if self.rng.random() < KILLED:
                time.sleep(self.rng.uniform(0, 0.2))
                self.rng.choice([self.running.kill, self.running.kill_learner])()

    def take_away(self) -> None:
        """Take the folder of the versions away for a while, perhaps while the learner dies."""
        self._wait_a_while()
        versions, away = self.folder.path / "versions", self.folder.path / "away"
        versions.rename(away)
        try:
            if self.rng.random() < KILLED:
                self.running.kill_learner()
            time.sleep(self.rng.uniform(0, 3))
            assert self.running.fetch("/healthz") is not None
        finally:
            away.rename(versions)

    # Copies

    def back_up(self) -> None:
        """Back it up while it learns, restore that, and compare; each command may be killed, and is then repeated."""
        backup, again = self._new("backup", ".tar" if self.rng.random() < 0.5 else ""), self._new("again")
        known = self.clients.known
        self._command("backup", str(self.folder.path), str(backup), result=backup)
        self._command("restore", str(backup), str(again), result=again)
        self._command("check", str(again))
        copy = ModelFolder(again)
        self.twin.follow(copy.journal).require_all(known)
        learn_the_rest(copy)
        self.twin.branch().follow(copy.journal).require_equal(copy.version(copy.versions()[-1]))
        for path in (backup, again):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _command(self, *arguments: str, result: Path | None = None) -> None:
        """Run a command, perhaps killed at first; what it makes is then absent or complete, never half made."""
        if self.rng.random() < KILLED:
            process = start(arguments, self.scratch / "log")
            time.sleep(self.rng.uniform(0, 0.5))
            process.kill()
            process.join()
            if process.exitcode:
                self.running.kills.commands += 1
            if result is not None and result.exists():
                return
        process = start(arguments, self.scratch / "log")
        process.join()
        assert process.exitcode == 0, (self.scratch / "log").read_text()

    def damage_a_copy(self) -> None:
        """Kill the service, damage a copy of what it left, and see what becomes of that."""
        self._wait_a_while()
        self.running.kill(restart=False)
        whole, copy = ModelFolder(self._new("whole")), ModelFolder(self._new("copy"))
        for each in (whole, copy):
            shutil.copytree(self.folder.path, each.path)
        known = self.clients.known
        self.running.start()
        assert list(check(whole)) == []
        self.twin.follow(whole.journal).require_all(known)  # whoever reads a journal last leaves no log to be damaged
        what, _ = self.damages.damage(copy)
        outcome = see(copy, self.twin, new_journal=self.rng.random() < 0.5)
        self.counts[f"copy: {what}: {outcome}"] += 1
        for each in (whole, copy):
            shutil.rmtree(each.path)

    def damage_in_place(self) -> None:
        """Kill the service and damage a file of its own; if the next one notices, put the file back as it was."""
        self._wait_a_while()
        self.running.kill(restart=False)
        before = self._new("before")
        shutil.copytree(self.folder.path, before)
        what, path = self.damages_in_place.damage(self.folder)
        damaged = contents(self.folder)
        self.running.start()
        outcome = "continued"
        if (why := self._why_it_does_not_learn()) is not None:
            outcome = "noticed"
            self._require_only_predictions(why)
            self.running.kill(restart=False)
            assert contents(self.folder) == damaged, what
            self._put_back(before, path)
            self.running.start()
        self.counts[f"in place: {what}: {outcome}"] += 1
        shutil.rmtree(before)

    def _why_it_does_not_learn(self) -> str | None:
        """Return why a service that was started only predicts; None if it learns."""
        wait_for(lambda: self.running.fetch("/healthz") is not None)
        status = self.running.fetch("/v1/status")
        return None if "queue" in status else str(status["error"])

    def _require_only_predictions(self, why: str) -> None:
        """Fail if a service that noticed a loss accepts anything, or does not predict."""
        assert "evenkeel" in why, why  # the ways out are commands
        x = [0.0] * FEATURES
        answer = self.clients.request("POST", "/v1/predict", {"x": x}, fine=(409,))  # it may know no class yet
        assert answer is None or answer["predictions"][0]["id"] is None
        with httpx.Client(base_url=self.running.url, timeout=60, verify=False) as client:
            refused = client.post("/v1/learn", json={"x": x, "label": 0})
        assert refused.status_code == 503, refused.text
        assert "nothing is learned" in refused.text, refused.text

    def _put_back(self, before: Path, path: Path) -> None:
        """Put a file back, and with it all that belongs to the journal: they are of one moment."""
        for each in (path, *self.folder.journal_files()):
            each.unlink(missing_ok=True)
            copy = before / each.relative_to(self.folder.path)
            if copy.exists():
                shutil.copy2(copy, each)

    def _new(self, name: str, suffix: str = "") -> Path:
        return self.scratch / f"{name}-{sum(self.counts.values())}{suffix}"

    # The end

    def finish(self) -> dict[str, int]:
        """Stop the load, let everything be learned, and compare with the twin; return what the service counted."""
        self.running.wait_ready()
        self.clients.wait_for_more()
        self.clients.stop()
        self.running.stop()  # a start removes what deleted rows left
        status = self.running.settled()
        self.running.stop(restart=False)
        twin, counted = self.twin.follow(self.folder.journal), dict(status["examples"])
        assert set(twin.accepted) == self.clients.known
        assert twin.forgotten == set().union(*self.forgets)
        assert len(twin.learned) == len(set(twin.learned)), "Something was learned twice."
        assert counted == {
            "accepted": len(twin.accepted),
            "learned": len(twin.learned),
            "waiting": 0,
            "refused": 0,
            "withdrawn": len(twin.accepted) - len(twin.learned),
        }
        assert status["accuracy"]["answered"]["labelled"] == len(self.clients.labelled)
        assert list(check(self.folder)) == []
        twin.require_equal(self.folder.version(self.folder.versions()[-1]))
        self._require_forgotten()
        return counted

    def _require_forgotten(self) -> None:
        """Fail if a sample that was forgotten is in any file."""
        samples = [self.clients.bytes_of(id) for ids in self.forgets for id in ids]
        for path in filter(Path.is_file, self.folder.path.rglob("*")):
            content = path.read_bytes()
            assert not any(sample in content for sample in self.rng.sample(samples, min(len(samples), 300))), path


def learn_the_rest(folder: ModelFolder) -> None:
    """Open a folder in this process, learn what waits, and close it."""
    service = Service(folder.path)
    assert service.problem is None, service.problem
    service.start()
    settle(service)
    service.close()
