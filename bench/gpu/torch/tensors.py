"""Tensors like those of models, the same for all who name the same seed, and compared by their bits."""

import torch

DEVICE = "cuda"
# bf16: NaNs with payloads (quiet, signaling, negative), infinities, -0.0, the smallest denormal, 0.0.
_SPECIAL = [0x7FC5, 0x7F81, -0x002A, 0x7F80, -0x0080, -0x8000, 0x0001, 0x0000]
_BETWEEN_SPECIAL = 997


class Different(Exception):
    """Something is not what it should be."""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers, which are equal where the bits are."""
    return tensor.view(torch.int16)


def weights(elements: int, seed: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Numbers that spread as weights do."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return (torch.randn(elements, generator=generator, device=DEVICE) * 0.02).to(dtype)


def weights_and_more(elements: int, seed: int) -> torch.Tensor:
    """The same in bf16, with numbers in between that arithmetic would change, and a copy must not."""
    tensor = weights(elements, seed)
    places = bits(tensor)[::_BETWEEN_SPECIAL]
    special = torch.tensor(_SPECIAL, dtype=torch.int16, device=DEVICE)
    places.copy_(special.repeat(len(places) // len(special) + 1)[: len(places)])
    return tensor


def integers(elements: int, seed: int) -> torch.Tensor:
    """Any 32 bits: sums of them wrap around."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randint(-(2**31), 2**31, (elements,), generator=generator, dtype=torch.int32, device=DEVICE)


def delay() -> None:
    """Keeps the current stream busy for a millisecond or so: whoever does not wait for it comes too early."""
    torch.cuda._sleep(2_000_000)


def check_same(what: str, got: torch.Tensor, expected: torch.Tensor) -> None:
    got, expected = bits(got), bits(expected)
    if not torch.equal(got, expected):
        wrong = (got != expected).nonzero()
        first = int(wrong[0])
        found, right = (int(side[first]) & 0xFFFF for side in (got, expected))
        raise Different(f"{what}: {len(wrong)} of {len(got)} halfwords are wrong, the first at {first}: "
                        f"{found:04x} instead of {right:04x}")


def check_shrunk(what: str, raw_bytes: int, coded_bytes: int, most: float = 0.85) -> None:
    """XP leaves about 0.67 of weights in bf16."""
    if coded_bytes > most * raw_bytes:
        raise Different(f"{what}: {raw_bytes} bytes went as {coded_bytes}, and should have shrunk")
