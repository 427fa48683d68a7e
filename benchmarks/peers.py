"""What a step costs around its arithmetic: ours next to a minimal loop, and next to other libraries if they are there.

Run: python benchmarks/peers.py. An MLP 3072-64-10 learns batches of 32 images with 32 replayed ones, in one thread. The
bare loop has ready tensors: two forwards, a backward, a step of SGD. All rows are measured in one process, interleaved,
in blocks of five steps; a ratio is the median over rounds of its block's CPU time divided by that of its base in the
same round (on a GPU: of the time until the device has finished). Mammoth and Avalanche are measured where they are
importable.
"""

import argparse
import json
import platform
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek

BATCH, BLOCK, MEMORY, CLASSES = 32, 5, 500, 10
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)
Block = Callable[[], None]


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return x, torch.randint(CLASSES, (count,), generator=generator)


def network() -> ek.Net:
    return ek.mlp(features=3072, classes=CLASSES, hidden=(64,))


def bare(device: str) -> Block:
    """Return a block of steps on ready tensors, with nothing around them."""
    net = network().to(device).train()
    optimizer = SGD(net.parameters(), lr=0.03)
    batches = [((x.float() / 255).to(device), y.to(device)) for x, y in (images(BATCH, seed) for seed in range(2))]

    def block() -> None:
        for _ in range(BLOCK):
            loss = torch.stack([F.cross_entropy(net(x), y) for x, y in batches]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return block


def ours(
    device: str, method: ek.Method, adaptor: ek.Adaptor | None = None, augment: ek.CropFlip | None = None
) -> Block:
    """Return a block of steps of a learner whose memory is full."""
    learner = ek.Learner(
        network(),
        method,
        adaptor=adaptor,
        memory=MEMORY,
        augment=augment,
        normalize=(MEAN, STD),
        classes=range(CLASSES),
        device=device,
    )
    for seed in range(MEMORY // BATCH + 1):
        learner.learn(*images(BATCH, seed + 2))
    x, y = images(BATCH, seed=1)

    def block() -> None:
        for _ in range(BLOCK):
            learner.learn(x, y)

    return block


def avalanche(device: str) -> Block:
    """Return a block of steps of Avalanche's replay."""
    benchmarks, training = import_module("avalanche.benchmarks"), import_module("avalanche.training")
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    x, y = images(BATCH * BLOCK, seed=1)
    data = [((x.float() / 255), y)]
    stream = benchmarks.tensors_benchmark(train_tensors=data, test_tensors=data, task_labels=[0]).train_stream
    strategy = training.Replay(
        model=net,
        optimizer=SGD(net.parameters(), lr=0.03),
        criterion=nn.CrossEntropyLoss(),
        mem_size=MEMORY,
        train_mb_size=BATCH,
        train_epochs=1,
        device=torch.device(device),
        evaluator=None,
    )
    return lambda: strategy.train(stream[0])


def mammoth(device: str) -> Block:
    """Return a block of steps of Mammoth's ER."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    options = {"lr": 0.03, "optimizer": "sgd", "optim_wd": 0, "optim_mom": 0, "nomefs": 0, "device": device}
    settings = Namespace(buffer_size=MEMORY, minibatch_size=BATCH, batch_size=BATCH, **options)
    model = import_module("models.er").Er(net, nn.CrossEntropyLoss(), settings, None)
    images_, y = images(BATCH, seed=1)
    x, y = (images_.float() / 255).to(device), y.to(device)

    def block() -> None:
        for _ in range(BLOCK):
            model.observe(x, y, x)

    return block


PEERS: dict[str, tuple[str, Callable[[str], Block]]] = {  # the module that shows it is installed, a block
    "Avalanche, Replay": ("avalanche", avalanche),
    "Mammoth, ER": ("models.er", mammoth),
}


def rows(device: str) -> dict[str, tuple[str, Block]]:
    """Return name -> (base that it is compared with, block)."""
    blocks = {
        "bare": ("bare", bare(device)),
        "ER": ("bare", ours(device, ek.ER())),
        "ER, crop-flip": ("bare", ours(device, ek.ER(), augment=ek.CropFlip())),
        "DER++": ("bare", ours(device, ek.DERpp())),
        "ER + CBA, every 5th": ("ER", ours(device, ek.ER(), ek.CBA(every=5, start="first"))),
        "ER + CBA, every step": ("ER", ours(device, ek.ER(), ek.CBA(every=1, start="first"))),
    }
    for name, (module, make) in PEERS.items():
        if is_importable(module):
            blocks[name] = ("bare", make(device))
        else:
            print(f"{name}: not measured, {module} is not importable here.")
    return blocks


def is_importable(module: str) -> bool:
    package, _, _ = module.partition(".")
    return find_spec(package) is not None and find_spec(module) is not None


def seconds(block: Block, device: str) -> float:
    """Return the time of a step: of the CPU, or until the device has finished."""
    if device == "cpu":
        start = time.process_time()
        block()
        return (time.process_time() - start) / BLOCK
    start = time.perf_counter()
    block()
    torch.accelerator.synchronize()
    return (time.perf_counter() - start) / BLOCK


def measure(device: str, rounds: int) -> dict[str, dict[str, float | str]]:
    blocks = rows(device)
    for _, block in blocks.values():
        block()  # warm up
    times = [{name: seconds(block, device) for name, (_, block) in blocks.items()} for _ in range(rounds)]
    result: dict[str, dict[str, float | str]] = {}
    for name, (base, _) in blocks.items():
        ratio = statistics.median(each[name] / each[base] for each in times)
        result[name] = {"ms": statistics.median(each[name] for each in times) * 1000, "ratio": ratio, "base": base}
        print(f"{device}  {name:22} {result[name]['ms']:7.3f} ms  {ratio:5.2f} x {base}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path, default=None, help="write the numbers to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gpu = ek.Learner(network(), ek.ER(), device="auto").device
    devices = ["cpu"] if gpu.type == "cpu" else ["cpu", str(gpu)]
    result = {device: measure(device, options.rounds) for device in devices}
    if len(devices) == 1:
        print("There is no GPU here that torch can use: only the CPU was measured.")
    if options.json is not None:
        about = {"torch": torch.__version__, "machine": platform.processor() or platform.machine()}
        options.json.write_text(json.dumps({**about, **result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
