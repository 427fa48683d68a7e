"""Random images, as tensors and as Pillow images."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def seeded(seed: int = 0) -> torch.Generator:
    """Return a generator with this seed."""
    return torch.Generator().manual_seed(seed)


def pixels(*shape: int, seed: int = 0) -> Tensor:
    """Return random images of this shape."""
    return torch.randint(256, shape, dtype=torch.uint8, generator=seeded(seed))


def to_pillow(image: Tensor) -> Image.Image:
    """Return an image (channels, height, width) as a Pillow image."""
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def to_tensor(picture: Image.Image) -> Tensor:
    """Return a Pillow image as (channels, height, width)."""
    array = np.array(picture)
    return torch.from_numpy(array.reshape(*array.shape[:2], -1)).permute(2, 0, 1)
