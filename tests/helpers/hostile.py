"""Bad requests, ways to send them, and checks of what a service does about them."""

import random
import struct
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.helpers.serving import Served, Server, encoded, text

BODY, EXAMPLES = 2_000_000, 50
LIMITS = (
    f"limits.body={BODY}",
    f"limits.examples={EXAMPLES}",
    "limits.label=40",
    "limits.pixels=1000000",
)
X = [1.0, 0.0, 0.0, 0.0]


PNG = encoded(Image.radial_gradient("L").resize((20, 20)))


def refused(answer: httpx.Response, *statuses: int) -> str:
    """Check that a request was refused with one of these statuses, and return the error message."""
    assert answer.status_code in statuses, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert list(content) == ["error"]
    assert content["error"]
    return str(content["error"])


def accepted(served: Server) -> int:
    """Return how many examples were accepted, after a check that the counts add up once all are learned."""
    numbers = served.settled()["examples"]  # while it learns, the counts are not of one moment
    assert numbers["accepted"] == sum(numbers[part] for part in ("learned", "waiting", "refused", "withdrawn"))
    return int(numbers["accepted"])


def check_works(served: Server) -> None:
    """Check that the service is ready, learns and predicts."""
    status = served.settled()
    assert status["error"] is None
    assert served.get("/readyz") == {"status": "ready"}
    sample = {"x": X} if status["input"]["kind"] == "vector" else {"image": text(PNG)}
    before = accepted(served)
    served.post("/v1/learn", {"examples": [sample | {"label": "a"}] * 3}, 202)
    after = served.settled()
    assert accepted(served) == before + 3
    assert after["examples"]["learned"] == status["examples"]["learned"] + 3
    assert len(served.post("/v1/predict", sample, 200)["predictions"]) == 1


def peak(served: Served) -> int:
    """Return the peak memory of the service, in bytes."""
    status = Path(f"/proc/{served.process.pid}/status")
    if not status.exists():
        pytest.skip("Only Linux reports the peak memory.")
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


# Images


def png(width: int, height: int, data: bytes) -> bytes:
    """Return a gray PNG that claims to be of this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def form(*parts: tuple[str, bytes], charset: str = "", end: bytes = b"--B--\r\n") -> dict[str, Any]:
    """Return the content and headers of a multipart form."""
    body = b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    return {"content": body + end, "headers": {"Content-Type": f"multipart/form-data; boundary=B{charset}"}}


# At random


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the data with a few bytes flipped, cut out, doubled or overwritten."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(damaged))
        how = rng.randrange(5)
        if how == 0:
            damaged[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            damaged[at] = rng.choice(b'\0"{}[]:,-0e.\xff\\')
        elif how == 2:
            del damaged[at : at + rng.randint(1, 8)]
        elif how == 3:
            damaged[at:at] = damaged[at : at + rng.randint(1, 30)]
        else:
            damaged[at : at + 4] = struct.pack(">I", rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 65535]))
        damaged = damaged or bytearray(b"\0")
    return bytes(damaged)


def survived(answer: httpx.Response) -> int:
    """Check that the response is a success or a proper refusal, and return its status."""
    if not answer.is_success:
        refused(answer, 400, 404, 409, 413, 415, 422, 429)
    return answer.status_code
