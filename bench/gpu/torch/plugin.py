"""Checks of the NCCL network plugin under torch.distributed, with two ranks that NCCL takes for two machines."""

import ctypes
import hashlib
import re
import socket
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from children import Job, run
from tensors import DEVICE, Different, check_same, check_shrunk, integers, weights, weights_and_more

RANKS = 2
SIZES = [4 << 10, 1 << 20, 32 << 20]
GATHERS = 5
# What the plugin says in NCCL's log: its version, how it sends, and its policy.
SIGN = re.compile(r"NET/mgcomp : mgcomp \S+, .*, compression (\S+)")


@dataclass(frozen=True)
class Said:
    """What a rank has to say: hashes of sums of floats, and what an all_gather of the longest size took."""

    sums: dict[str, str]
    gather_ms: float
    loopback_bytes: int


@dataclass
class Runs:
    """The same operations under several settings. That with MGCOMP=off comes first: the others are compared with it."""

    plugin: str
    device: int
    said: dict[str, list[Said]] = field(default_factory=dict)

    def check(self, policy: str, settings: dict[str, str]) -> str:
        port = _free_port()
        done = run([Job(_rank, (rank, self.device), self._environment(rank, port) | settings) for rank in range(RANKS)])
        for rank, (_, output) in enumerate(done):
            if (found := SIGN.search(output)) is None or found[1] != policy:
                raise Different(f"in NCCL's log of rank {rank} there is no plugin with compression {policy}:\n{output}")
        self.said[policy] = [said for said, _ in done]
        if "off" not in self.said:
            raise Different("moved bytes are right, but with MGCOMP=off there were no sums to compare with")
        reference = self.said["off"][0].sums
        for rank, said in enumerate(self.said[policy]):
            if wrong := [name for name, value in said.sums.items() if value != reference[name]]:
                raise Different(f"all_reduce at rank {rank} is not that of rank 0 with MGCOMP=off: {', '.join(wrong)}")
        same = "on both ranks" if policy == "off" else "as with MGCOMP=off"
        return f"moved bytes and sums of i32 as expected, sums of bf16 and f32 the same {same}{self._shrinking(policy)}"

    def speeds(self) -> str:
        times = ", ".join(f"{said[0].gather_ms:.1f} ms ({policy})" for policy, said in self.said.items())
        return f"for information: an all_gather of {SIZES[-1] >> 20} MiB of bf16 weights of each rank took {times}"

    def _shrinking(self, policy: str) -> str:
        """What a fixed codec leaves shows in the bytes that the system counts on the loopback interface."""
        raw, coded = (self.said[name][0].loopback_bytes for name in ("off", policy))
        if not policy.startswith("fixed:"):
            return ""
        if raw < GATHERS * RANKS * SIZES[-1]:
            return "; how many bytes went over lo, this system does not count"
        check_shrunk("over lo", raw, coded)
        return f"; {coded / raw:.2f} of the bytes over lo"

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        return {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(RANKS),
            # Ranks of one machine would have to have a GPU each, and would not use the network.
            "NCCL_HOSTID": f"mgcomp-check-{rank}", "NCCL_NET_PLUGIN": self.plugin, "NCCL_NET": "mgcomp",
            "NCCL_SOCKET_IFNAME": "=lo", "NCCL_SOCKET_FAMILY": "AF_INET", "NCCL_DEBUG": "INFO",
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _rank(rank: int, device: int) -> Said:
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device), timeout=timedelta(seconds=50))
    sums = {}
    for size in SIZES:
        _move(rank, size // 2)
        for dtype in (torch.bfloat16, torch.float32):
            total = weights(size // dtype.itemsize, rank, dtype)
            dist.all_reduce(total)
            sums[f"{size} bytes of {dtype}"] = _hash(total)
        first, second = (integers(size // 4, seed) for seed in range(RANKS))
        total = (first, second)[rank].clone()
        dist.all_reduce(total)
        check_same("all_reduce of i32", total, first + second)
    said = Said(sums, *_timed_gathers(rank))
    dist.destroy_process_group()
    return said


def _move(rank: int, elements: int) -> None:
    blocks = [weights_and_more(elements, seed) for seed in range(RANKS)]
    mine, half, what = blocks[rank], elements // RANKS, f"of {elements} elements"
    room = torch.zeros(RANKS * elements, dtype=mine.dtype, device=DEVICE)
    dist.all_gather_into_tensor(room, mine)
    check_same(f"all_gather {what}", room, torch.cat(blocks))
    got = torch.zeros_like(mine)
    dist.all_to_all_single(got, mine)
    check_same(f"all_to_all {what}", got, torch.cat([block[rank * half : (rank + 1) * half] for block in blocks]))
    got.copy_(mine)
    dist.broadcast(got, src=1)
    check_same(f"broadcast {what}", got, blocks[1])
    got.zero_()
    turns = [lambda: dist.send(mine, 1 - rank), lambda: dist.recv(got, 1 - rank)]
    for turn in turns if rank == 0 else reversed(turns):
        turn()
    check_same(f"send and recv {what}", got, blocks[1 - rank])


def _timed_gathers(rank: int) -> tuple[float, int]:
    """The milliseconds of one, and the bytes that went over the loopback interface for all of them."""
    block = weights(SIZES[-1] // 2, rank)
    room = torch.zeros(RANKS * len(block), dtype=block.dtype, device=DEVICE)
    dist.all_gather_into_tensor(room, block)
    dist.barrier()
    torch.cuda.synchronize()
    before, started = _loopback_bytes(), time.perf_counter()
    for _ in range(GATHERS):
        dist.all_gather_into_tensor(room, block)
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - started) / GATHERS, _loopback_bytes() - before


def _loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    return 0


def _hash(tensor: torch.Tensor) -> str:
    host = tensor.cpu()
    return hashlib.sha256(ctypes.string_at(host.data_ptr(), host.nbytes)).hexdigest()
