"""The cost of augmenting a batch of images: evenkeel's batched augmentations compared with kornia's.

    python benchmarks/augment_cost.py

Each round runs all of them in turn, on one thread, and counts its CPU time: other load on the machine hardly matters.
As background: kornia 0.9's RandAugment draws ONE operation for the whole batch (verified), so it could
not be used here at any speed; kornia's crop and flip took about 3 ms where one gather takes about 0.3 ms.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from evenkeel.learning.augment import Augment, ColorJitter, CropFlip, Grayscale, InOrder, RandAugment, ResizedCrop

ROUNDS, WARM_UP = 50, 5
OURS: dict[str, Augment] = {
    "CropFlip": CropFlip(),
    "RandAugment": RandAugment(),
    "CropFlip, then RandAugment": InOrder([CropFlip(), RandAugment(padding=0)]),
    "ResizedCrop": ResizedCrop(),
    "ColorJitter": ColorJitter(),
    "Grayscale": Grayscale(),
    "ResizedCrop, then ColorJitter, then Grayscale": InOrder([ResizedCrop(), ColorJitter(), Grayscale()]),
}


def own(augment: Augment, x: Tensor) -> Callable[[], Tensor]:
    generator = torch.Generator().manual_seed(0)
    return lambda: augment(x, generator)


def kornias(x: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Return kornia's closest counterparts. They take floats, so the conversion from bytes is part of their time."""
    try:
        from kornia.augmentation import (
            AugmentationSequential,
            RandomCrop,
            RandomGrayscale,
            RandomHorizontalFlip,
            RandomResizedCrop,
        )
        from kornia.augmentation import ColorJitter as KorniaColorJitter
        from kornia.augmentation.auto import RandAugment as KorniaRandAugment
    except ImportError:
        print("kornia is not installed: its rows are left out.")
        return {}
    crop_flip = AugmentationSequential(RandomCrop((32, 32), padding=4), RandomHorizontalFlip(p=0.5))
    rand_augment = KorniaRandAugment(n=1, m=14)
    views = AugmentationSequential(
        RandomResizedCrop((32, 32), scale=(0.2, 1.0)),
        RandomHorizontalFlip(p=0.5),
        KorniaColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        RandomGrayscale(p=0.2),
    )
    return {
        "kornia crop + flip": lambda: crop_flip(x.float() / 255),
        "kornia RandAugment (one operation per batch)": lambda: rand_augment(x.float() / 255),
        "kornia resized crop + flip + jitter + gray": lambda: views(x.float() / 255),
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8)
    runs = {name: own(augment, x) for name, augment in OURS.items()} | kornias(x)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(WARM_UP + ROUNDS):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name].append(time.thread_time() - start)
    print(f"{ROUNDS} rounds, {tuple(x.shape)} {x.dtype}, CPU time of one thread")
    print(f"{'milliseconds':<55}{'median':>8}{'fastest':>9}")
    for name, seconds in times.items():
        print(f"{name:<55}{1000 * median(seconds[WARM_UP:]):8.2f}{1000 * min(seconds):9.2f}")


if __name__ == "__main__":
    main()
