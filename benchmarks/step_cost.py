"""The cost of a step on top of its unavoidable arithmetic. Run: make bench

"Bare" is the same forwards, backward and SGD step on ready tensors with nothing else. All rows of a net are measured
in one process, interleaved, in blocks of five steps (so that CBA at every 5th step has one outer step in each block);
the ratio of a row is the median over rounds of its block's time divided by that of its base in the same round.
"""

import argparse
import copy
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.types import PredictWith
from evenkeel.learning.zoo import _Images

BATCH, BLOCK, MEMORY, CLASSES = 32, 5, 500, 10
NETS: dict[str, tuple[Callable[[], ek.Net], int]] = {  # how to create it, rounds
    "MLP 3072-64-10": (partial(ek.mlp, features=3072, classes=CLASSES, hidden=(64,)), 60),
    "ResNet-18 slim": (partial(ek.resnet18, classes=CLASSES, width=20), 11),
    "ResNet-18 full": (partial(ek.resnet18, classes=CLASSES, width=64), 5),
}
METHODS: dict[str, Callable[[], ek.Method]] = {"ER": ek.ER, "DER++": ek.DERpp, "CLS-ER": ek.CLSER}
AVERAGED = ("ER", "DER++")  # also with averaged weights
COMPARED = ("er_ace", "ss_il", "icarl", "lucir", "bic", "finetune")  # with ER alone, in their second task
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)
Block = Callable[[], None]


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return x, torch.randint(CLASSES, (count,), generator=generator)


def bare(make: Callable[[], ek.Net], groups: int, layout: torch.memory_format | None = None) -> Block:
    """Return a block of steps: `groups` forwards of 32 ready images, one backward, one SGD step."""
    net = make().train()
    if layout is not None:
        assert isinstance(net.backbone, _Images)
        net.backbone.layout = layout
        for weight in net.parameters():
            weight.data = weight.data.contiguous(memory_format=layout)
    optimizer = SGD(net.parameters(), lr=0.03)
    batches = [(x.float() / 255, y) for x, y in (images(BATCH, seed) for seed in range(groups))]

    def block() -> None:
        for _ in range(BLOCK):
            loss = torch.stack([F.cross_entropy(net(x), y) for x, y in batches]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return block


def learning(
    make: Callable[[], ek.Net],
    method: ek.Method,
    adaptor: ek.Adaptor | None,
    *,
    average: float | None = None,
    distill: float = 0.0,
) -> Block:
    learner = ek.Learner(
        make(),
        method,
        adaptor=adaptor,
        memory=MEMORY,
        augment=ek.CropFlip(),
        normalize=(MEAN, STD),
        classes=range(10),
        average=average,
        distill=distill,
    )
    x, y = images(MEMORY, seed=0)  # the memory starts full, with every column that the method stores
    stored = method.remember(blank_view(y, corrected=isinstance(adaptor, ek.CBA)))
    if method.rehearses:
        for part in learner.memories:
            part.insert({"x": x, "y": y, **stored}, torch.Generator())
    x, y = images(BATCH, seed=1)

    def block() -> None:
        for _ in range(BLOCK):
            learner.learn(x, y)

    return block


def second_task(make: Callable[[], ek.Net], method: ek.Method) -> tuple[Block, ek.Learner]:
    """Return a block of steps with five old and five new classes, including a teacher, and its learner."""
    learner = ek.Learner(
        make(), method, memory=MEMORY, augment=ek.CropFlip(), normalize=(MEAN, STD), classes=range(CLASSES)
    )
    x, y = images(4 * MEMORY, seed=0)
    learner.learn(x[:BATCH], y[:BATCH] % 5)
    if method.rehearses:
        for part in learner.memories:
            part.insert({"x": x, "y": y % 5}, torch.Generator())
    learner.boundary()
    x, y = images(BATCH, seed=1)

    def block() -> None:
        for _ in range(BLOCK):
            learner.learn(x, 5 + y % 5)

    return block, learner


def blank_view(y: Tensor, *, corrected: bool) -> ek.View:
    nothing = torch.zeros(len(y), CLASSES)
    adapted = nothing.clone() if corrected else nothing
    return ek.View(nothing, y, {}, nothing, nothing, adapted, adapted)


def cba(every: int) -> ek.CBA:
    return ek.CBA(every=every, start="first")


def rows(make: Callable[[], ek.Net], methods: list[str]) -> dict[str, tuple[str, Block]]:
    """Return name -> (base it is compared with, block)."""
    blocks = {"bare, 2 groups": ("bare, 2 groups", bare(make, 2))}
    if isinstance(make().backbone, _Images):
        blocks["bare, default layout"] = ("bare, 2 groups", bare(make, 2, torch.contiguous_format))
    for name in methods:
        base = "bare, 2 groups"
        if METHODS[name]().draws == 2:
            base = "bare, 3 groups"
            blocks[base] = ("bare, 2 groups", bare(make, 3))
        blocks[name] = (base, learning(make, METHODS[name](), None))
        blocks[f"{name} + Prior"] = (name, learning(make, METHODS[name](), ek.Prior()))
        blocks[f"{name} + CBA, every 5th"] = (name, learning(make, METHODS[name](), cba(5)))
        blocks[f"{name} + CBA, every step"] = (name, learning(make, METHODS[name](), cba(1)))
        if name in AVERAGED:
            blocks[f"{name}, averaged weights"] = (name, learning(make, METHODS[name](), None, average=0.99))
            blocks[f"{name}, averaged weights, distilled"] = (
                name,
                learning(make, METHODS[name](), None, average=0.99, distill=5.5),
            )
    return blocks


def compared(make: Callable[[], ek.Net], rounds: int) -> dict[str, dict[str, float]]:
    """Return the cost of the comparison methods: a step, and the end of a task, both in steps of ER."""
    learners = {name: second_task(make, ek.METHODS[name]()) for name in ("er", *COMPARED)}
    for block, _ in learners.values():
        block()
    seconds = [{name: timed(block) for name, (block, _) in learners.items()} for _ in range(rounds)]
    step = {name: statistics.median(each[name] / each["er"] for each in seconds) for name in COMPARED}
    er = statistics.median(each["er"] for each in seconds)
    # Each boundary on a copy: a second one in a row would have no new classes and less to do.
    ends = {
        name: statistics.median(BLOCK * timed(copy.deepcopy(learners[name][1]).boundary) for _ in range(3)) / er
        for name in COMPARED
    }
    return {name: {"step": step[name], "boundary": ends[name]} for name in COMPARED}


def queries(make: Callable[[], ek.Net]) -> dict[str, dict[str, float]]:
    """Return CPU milliseconds, by the weights that predict: the first query after a change, the next, a snapshot."""
    learner = ek.Learner(make(), ek.ER(), memory=MEMORY, classes=range(CLASSES), average=0.99)
    x, y = images(BATCH, seed=1)

    def once(action: Callable[[], object]) -> float:
        start = time.process_time()
        action()
        return (time.process_time() - start) * 1000

    def after_change() -> dict[str, float]:
        learner.learn(x, y)
        first, again = (once(lambda: learner.predict(x[:1])) for _ in range(2))
        learner.learn(x, y)
        return {"first query": first, "next query": again, "snapshot": once(learner.snapshot)}

    result = {}
    for weights in get_args(PredictWith):
        learner.predict_with = weights
        rounds = [after_change() for _ in range(5)]
        result[weights] = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return result


def added(make: Callable[[], ek.Net]) -> dict[str, float]:
    """Return the CPU milliseconds that a prior and averaged weights add to a step: what they do in it, alone.

    The difference of two whole steps cannot show so little on a machine whose steps vary by a tenth.
    """
    prior = ek.Prior()
    learner = ek.Learner(make(), ek.ER(), adaptor=prior, memory=MEMORY, classes=range(CLASSES), average=0.99)
    x, y = images(MEMORY, seed=0)
    learner.memory.insert({"x": x, "y": y}, torch.Generator())
    learner.learn(x[:BATCH], y[:BATCH])
    groups = [blank_view(y[:BATCH], corrected=False)] * 2
    average = learner._classifier.average
    assert average is not None

    def of_prior() -> None:
        prior.backup()
        prior.observe(learner.method, groups, learner.memory)
        for view in groups:
            prior.correct(view)

    def each(action: Callable[[], object]) -> float:
        action()  # the first call allocates
        start = time.process_time()
        for _ in range(100):
            action()
        return (time.process_time() - start) * 10

    return {"Prior": each(of_prior), "averaged weights": each(average.follow)}


def timed(block: Block) -> float:
    start = time.perf_counter()
    block()
    return (time.perf_counter() - start) / BLOCK


def insert_and_draw() -> float:
    """Return the milliseconds to insert 32 images into a full memory and draw 32."""
    memory, generator = ek.Memory(MEMORY), torch.Generator().manual_seed(0)
    x, y = images(MEMORY, seed=0)
    memory.insert({"x": x, "y": y}, generator)

    def once() -> float:
        start = time.perf_counter()
        memory.insert({"x": x[:BATCH], "y": y[:BATCH]}, generator)
        memory.draw(BATCH, generator)
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(500)) * 1000


FILL = """
import resource, torch, evenkeel as ek
generator = torch.Generator().manual_seed(0)
x, y = torch.randint(256, (32, 3, 32, 32), generator=generator, dtype=torch.uint8), torch.arange(32) % 10
small = ek.Memory(64); [small.insert({"x": x, "y": y}, generator) for _ in range(4)]; small.draw(32, generator)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
memory = ek.Memory(50_000)
for _ in range(2500):
    memory.insert({"x": x, "y": y}, generator)
    memory.draw(32, generator)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / memory.column("x").nbytes)
"""


def peak_memory() -> float:
    """Return the growth of the resident set, over the images' bytes, while a memory of 50,000 images is filled."""
    done = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=list(NETS))
    parser.add_argument("--methods", nargs="*", default=None, choices=list(METHODS), help="default: all, full net: ER")
    parser.add_argument("--compare", action=argparse.BooleanOptionalAction, default=True, help="the comparison methods")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/step_cost.json"))
    options = parser.parse_args()
    torch.set_num_threads(2)

    console = Console()
    result: dict[str, object] = {
        "torch": torch.__version__,
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "insert_and_draw_32_ms": insert_and_draw(),
        "peak_memory_over_image_bytes": peak_memory(),
    }
    console.print(f"memory: insert + draw of 32 images {result['insert_and_draw_32_ms']:.3f} ms")
    console.print(f"memory: peak {result['peak_memory_over_image_bytes']:.3f} x the bytes of its images")
    result["queries with averaged weights, ResNet-18 slim, CPU ms"] = queries(NETS["ResNet-18 slim"][0])
    console.print(result["queries with averaged weights, ResNet-18 slim, CPU ms"])
    torch.set_num_threads(1)
    result["added to a step, ResNet-18 slim, CPU ms"] = added(NETS["ResNet-18 slim"][0])
    torch.set_num_threads(2)
    console.print("added to a step, CPU ms:", result["added to a step, ResNet-18 slim, CPU ms"])
    if options.compare:
        against_er = compared(*NETS["ResNet-18 slim"])
        result["compared with ER, ResNet-18 slim"] = against_er
        table = Table("", "step / ER's", "end of a task / ER's step", title="ResNet-18 slim, in the second task")
        for name, ratios in against_er.items():
            table.add_row(name, f"{ratios['step']:.2f}", f"{ratios['boundary']:.1f}")
        console.print(table)
    for net in options.nets:
        make, rounds = NETS[net]
        methods = options.methods or (["ER"] if net == "ResNet-18 full" else list(METHODS))
        blocks = rows(make, methods)
        for _, block in blocks.values():
            block()  # warm up
        seconds: dict[str, list[float]] = {name: [] for name in blocks}
        with Progress(console=console, transient=True) as progress:
            for _ in progress.track(range(rounds), description=net):
                for name, (_, block) in blocks.items():
                    seconds[name].append(timed(block))
        table = Table(title=f"{net}: {BATCH} + {BATCH} images, 2 threads, median of {rounds} rounds of {BLOCK} steps")
        for column in ("", "ms / step", "ratio", "to"):
            table.add_column(column, justify="left" if column in ("", "to") else "right")
        measured = {}
        for name, (base, _) in blocks.items():
            ratio = statistics.median(mine / its for mine, its in zip(seconds[name], seconds[base], strict=True))
            milliseconds = statistics.median(seconds[name]) * 1000
            measured[name] = {"ms": milliseconds, "ratio": ratio, "base": base}
            table.add_row(name, f"{milliseconds:.2f}", f"{ratio:.3f}", base)
        result[net] = measured
        console.print(table)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"written to {options.json}; peak of this whole process {peak:.0f} MiB")


if __name__ == "__main__":
    main()
