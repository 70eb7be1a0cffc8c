"""Checks of calls of mgcomp's C API with the memory of tensors, each for a process of its own."""

from ctypes import CDLL

import torch

from library import (BF16, DEVICE_TO_HOST, HOST_TO_DEVICE, SUM, SUM_OF_BF16, SUM_OF_F32, SUM_OF_I32, Handle,
                     MemcpyReport, NodeOptions, NodeStats, PeerCopierOptions, PeerCopyReport, create, load)
from tensors import DEVICE, Different, bits, check_same, check_shrunk, delay, integers, weights, weights_and_more

# Elements, and at which one of a longer tensor they begin. Those of SHRINKING and more must shrink.
SHAPES = [(2 << 10, 0), (128 << 10, 0), (8 << 20, 0), ((32 << 20) + 4321, 0), (1_000_003, 1)]
SHRINKING = 128 << 10
POLICIES = {
    "usual settings": None,
    "adaptive for 10 Gb/s": PeerCopierOptions(linkGbps=10),
    "fixed:xp": PeerCopierOptions(policy=b"fixed:xp", gateBytes=1),
}
TURNS, REPLAYS = 4, 50
RANKS, PEERS_NS = 2, 30 * 10**9


def peer_copies(path: str, device: int) -> str:
    library, left = load(path), {}
    torch.cuda.set_device(device)
    for name, options in POLICIES.items():
        copier = create(library.mgcompCreatePeerCopier, device, device, options)
        for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
            with torch.cuda.stream(stream):
                for elements, first in SHAPES:
                    report = _peer_copies_of(library, copier, (elements, first), f"{name}, {elements} elements")
                    left[name] = report.codedBytes / report.rawBytes
                    if name == "fixed:xp" and elements >= SHRINKING:
                        check_shrunk(name, report.rawBytes, report.codedBytes)
        library.mgcompDestroyPeerCopier(copier)
    return "4 KiB to 64 MiB on two streams; left at last: " + ", ".join(f"{left[name]:.2f} by {name}" for name in left)


def _peer_copies_of(library: CDLL, copier: Handle, shape: tuple[int, int], what: str) -> PeerCopyReport:
    """Copies amid work of the same stream, which nobody waits for. What lies around the destination is compared too."""
    elements, first = shape
    source, before = weights_and_more(first + elements, seed=elements)[first:], 64 + 3 * first
    stream, report = torch.cuda.current_stream().cuda_stream, PeerCopyReport()
    for turn in range(TURNS):
        room = torch.full((before + elements + 64,), 0x5A5A, dtype=torch.int16, device=DEVICE)
        to, expected = room[before : before + elements], room.clone()
        delay()
        bits(source).bitwise_xor_(turn)
        expected[before : before + elements] = bits(source)
        library.mgcompMemcpyPeerAsync(copier, to.data_ptr(), source.data_ptr(), source.nbytes, BF16, stream)
        bits(source).bitwise_not_()
        check_same(what, room, expected)
        bits(source).bitwise_not_()
        library.mgcompGetPeerCopyReport(copier, stream, report)
        if report.rawBytes != source.nbytes:
            raise Different(f"{what}: the report speaks of {report.rawBytes} bytes")
    return report


def graph(path: str, device: int) -> str:
    library, report = load(path), PeerCopyReport()
    torch.cuda.set_device(device)
    copier = create(library.mgcompCreatePeerCopier, device, device, POLICIES["fixed:xp"])
    stream, recorded = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        source = weights_and_more((8 << 20) + 1, seed=1)
        to = torch.zeros_like(source)
    with torch.cuda.graph(recorded, stream=stream):
        bits(source).bitwise_xor_(1)
        library.mgcompMemcpyPeerAsync(copier, to.data_ptr(), source.data_ptr(), source.nbytes, BF16, stream.cuda_stream)
        seen = to.clone()
        to.zero_()
    with torch.cuda.stream(stream):
        for replay in range(REPLAYS):
            bits(source).bitwise_xor_(2 * replay)
            recorded.replay()
            check_same(f"replay {replay}", seen, source)
    library.mgcompGetPeerCopyReport(copier, stream.cuda_stream, report)
    check_shrunk("the last replay", report.rawBytes, report.codedBytes)
    library.mgcompDestroyPeerCopier(copier)
    return f"{REPLAYS} replays of 16 MiB, each with other data, by fixed:xp"


def host_copies(path: str, device: int) -> str:
    library = load(path)
    torch.cuda.set_device(device)
    copier = create(library.mgcompCreateCopier, 0, device)
    with torch.cuda.stream(torch.cuda.Stream()):
        for elements, first in SHAPES:
            for policy in (None, b"fixed:xp"):
                for is_pinned in (True, False):
                    host = torch.zeros(elements, dtype=torch.bfloat16, pin_memory=is_pinned)
                    what = f"{elements} elements, {'pinned' if is_pinned else 'pageable'}, policy {policy!r}"
                    _to_host_and_back(library, copier, (host, first, policy), what)
    library.mgcompDestroyCopier(copier)
    return "4 KiB to 64 MiB to pinned and pageable memory and back, by the usual policy and fixed:xp"


def _to_host_and_back(library: CDLL, copier: Handle, how: tuple[torch.Tensor, int, bytes | None], what: str) -> None:
    host, first, policy = how
    elements, report = len(host), MemcpyReport()
    tensor = weights_and_more(first + elements, seed=elements)[first:]
    again = torch.zeros(first + elements, dtype=torch.bfloat16, device=DEVICE)[first:]
    for kind, to, source in ((DEVICE_TO_HOST, host, tensor), (HOST_TO_DEVICE, again, host)):
        delay()
        bits(tensor if source is tensor else again).bitwise_xor_(1)  # both ways have to come after that
        stream, where = torch.cuda.current_stream().cuda_stream, (to.data_ptr(), source.data_ptr(), source.nbytes)
        library.mgcompMemcpyCompressed(copier, *where, kind, BF16, policy, stream, report)
        if policy and elements >= SHRINKING:
            check_shrunk(what, report.rawBytes, report.codedBytes)
        check_same(f"{what}, kind {kind}", to.cpu(), tensor.cpu())


def offload(path: str, device: int) -> str:
    library, report = load(path), MemcpyReport()
    torch.cuda.set_device(device)
    queue = create(library.mgcompCreateOffloadQueue, 0, 1, b"fixed:xp", 1 << 30)
    for elements, first in SHAPES:
        tensor = weights_and_more(first + elements, seed=elements)[first:]
        for to in (tensor, torch.zeros_like(tensor)):
            delay()
            bits(tensor).bitwise_xor_(1)
            expected = tensor.clone()
            ticket = create(library.mgcompOffload, queue, tensor.data_ptr(), tensor.nbytes, BF16)
            library.mgcompWaitOffload(queue, ticket, report)
            if elements >= SHRINKING:
                check_shrunk(f"{elements} elements", report.rawBytes, report.codedBytes)
            delay()
            tensor.zero_()
            library.mgcompWaitRequest(create(library.mgcompPrefetch, queue, ticket, to.data_ptr(), to.nbytes), None)
            check_same(f"{elements} elements", to, expected)
            tensor.copy_(expected)
    library.mgcompDestroyOffloadQueue(queue)
    return "4 KiB to 64 MiB out and back, to where they were and elsewhere, by fixed:xp"


def rank_of_node(path: str, device: int, rank: int, secret: bytes) -> str:
    library, stats = load(path), NodeStats()
    torch.cuda.set_device(device)
    node = create(library.mgcompStartNodeShm, secret, RANKS, rank, NodeOptions(policy=b"fixed:xp"))
    library.mgcompWaitForPeers(node, PEERS_NS)
    world = create(library.mgcompCreateCommunicator, node)
    for elements in (2 << 10, 1_000_002, 8 << 20):
        _move(library, world, rank, elements)
        _reduce(library, world, rank, elements)
    library.mgcompGetNodeStats(node, stats)
    check_shrunk("all together", stats.rawBytes, stats.codedBytes, 0.95)  # integers and half of f32 do not shrink
    library.mgcompBarrier(world, None)
    library.mgcompDestroyCommunicator(world)
    library.mgcompDestroyNode(node)
    return f"{stats.rawBytes >> 20} MiB went as {stats.codedBytes >> 20}"


def _move(library: CDLL, world: Handle, rank: int, elements: int) -> None:
    blocks = [weights_and_more(elements, seed) for seed in range(RANKS)]
    size, half, mine = blocks[0].nbytes, elements // RANKS, blocks[rank]
    room = torch.zeros(RANKS * elements, dtype=mine.dtype, device=DEVICE)
    place = room[rank * elements : (rank + 1) * elements]
    for name, send in (("all_gather", mine), ("all_gather in place", place)):
        delay()
        room.zero_()
        if send is place:
            place.copy_(mine)
        library.mgcompAllGather(world, send.data_ptr(), size, room.data_ptr(), RANKS * size, BF16, None)
        check_same(name, room, torch.cat(blocks))
    own, other = mine.clone(), torch.zeros_like(mine)
    for name, to in (("all_to_all", other), ("all_to_all in place", own)):
        library.mgcompAllToAll(world, own.data_ptr(), size, to.data_ptr(), size, BF16, None)
        check_same(name, to, torch.cat([block[rank * half : (rank + 1) * half] for block in blocks]))
    delay()
    other.copy_(mine)
    library.mgcompBroadcast(world, 1, other.data_ptr(), size, BF16, None)
    check_same("broadcast", other, blocks[1])


def _reduce(library: CDLL, world: Handle, rank: int, elements: int) -> None:
    """The sum of two numbers is torch's: it is rounded once, and has one order."""
    blocks = {
        SUM_OF_BF16: [weights(elements, seed) for seed in range(RANKS)],
        SUM_OF_F32: [weights(elements, seed, torch.float32) for seed in range(RANKS)],
        SUM_OF_I32: [integers(elements, seed) for seed in range(RANKS)],
    }
    for datatype, (first, second) in blocks.items():
        mine, apart = torch.zeros_like(first), torch.zeros_like(first)
        delay()
        mine.copy_((first, second)[rank])
        for to in (apart, mine):
            library.mgcompAllReduce(world, mine.data_ptr(), mine.nbytes, to.data_ptr(), to.nbytes, datatype, SUM, None)
            check_same(f"all_reduce of {first.dtype}", to, first + second)
