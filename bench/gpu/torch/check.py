#!/usr/bin/env python3
"""Checks mgcomp with tensors of PyTorch on one CUDA device: calls of the C API by pointers, and the NCCL plugin.

    python3 bench/gpu/torch/check.py --library PATH/libmgcomp.so --plugin PATH/libmgcomp_nccl_net.so [--device 0]

Prints a line for each check, and below one that has failed what its processes have printed; then the exit code is 1.
What is not named is skipped. Needs no Rust.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Callable

import torch.distributed

import calls
from children import Job, run
from plugin import Runs


def alone(check: Callable[[str, int], str], library: str, device: int) -> str:
    [(said, _)] = run([Job(check, (library, device))])
    return said


def communicator(library: str, device: int) -> str:
    secret = secrets.token_bytes(16)
    said = run([Job(calls.rank_of_node, (library, device, rank, secret)) for rank in range(calls.RANKS)])
    return f"moved bytes and sums of bf16, f32 and i32 are torch's; {', '.join(value for value, _ in said)}"


def passes(name: str, missing: str | None, check: Callable[[], str]) -> bool:
    """Says what comes of a check."""
    try:
        print(f"{name}: " + (f"SKIPPED: {missing}" if missing else f"passed, {check()}"), flush=True)
    except Exception as error:
        print(f"{name}: FAILED: {error}", flush=True)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks mgcomp with tensors of PyTorch on one CUDA device.")
    parser.add_argument("--library", dest="path", metavar="LIBRARY", type=os.path.abspath, help="libmgcomp.so")
    parser.add_argument("--plugin", type=os.path.abspath, help="the NCCL network plugin, libmgcomp_nccl_net.so")
    parser.add_argument("--device", type=int, default=0, help="the number of the CUDA device (0)")
    named = parser.parse_args()
    where, runs = (named.path, named.device), Runs(named.plugin, named.device)
    no_library = None if named.path else "no --library"
    no_plugin = None if named.plugin else "no --plugin"
    if not torch.distributed.is_nccl_available():
        no_plugin = "this PyTorch has no NCCL"
    fixed = {"MGCOMP_POLICY": "fixed:xp", "MGCOMP_ELEMENT": "bf16"}
    results = [passes(*check) for check in [
        ("peer copies", no_library, lambda: alone(calls.peer_copies, *where)),
        ("peer copies in a graph", no_library, lambda: alone(calls.graph, *where)),
        ("copies to the host and back", no_library, lambda: alone(calls.host_copies, *where)),
        ("offload queue", no_library, lambda: alone(calls.offload, *where)),
        ("communicator of 2 ranks", no_library, lambda: communicator(*where)),
        ("NCCL plugin, MGCOMP=off", no_plugin, lambda: runs.check("off", {"MGCOMP": "off"})),
        ("NCCL plugin, usual settings", no_plugin, lambda: runs.check("adaptive", {})),
        ("NCCL plugin, fixed:xp", no_plugin, lambda: runs.check("fixed:xp", fixed)),
    ]]
    if runs.said:
        print(runs.speeds())
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
