"""Runs functions in processes of their own, for a limited time."""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

LIMIT_S = 60.0
# For the others once one has failed, which they may wait for; and for each to end once it has answered.
GRACE_S = 5.0
TAIL_LINES = 80
# What the shell says of these would change what is checked, but for where a compiler and caches are.
DROPPED, KEPT = ("MGCOMP", "NCCL_DEBUG"), {"MGCOMP_CACHE", "MGCOMP_NVRTC"}

# A server imports torch once. The children are its forks: no CUDA was in it.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch"])


class ChildFailed(Exception):
    """A process has failed, or did not end. With the end of what all of them have printed."""


@dataclass(frozen=True)
class Job:
    function: Callable[..., Any]
    arguments: tuple
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class _Child:
    process: BaseProcess
    answers: connection.Connection
    value: Any = None
    fault: str | None = "did not end in time"

    def hear(self) -> None:
        """Takes the answer, or that there will be none."""
        try:
            self.fault, self.value = self.answers.recv()
        except EOFError:
            self.fault = "gave no answer"
        self.process.join(GRACE_S)
        if self.process.exitcode != 0:
            end = "did not end" if self.process.exitcode is None else f"ended with exit code {self.process.exitcode}"
            self.fault = f"{self.fault or 'had done all'}, and {end}"

    def kill(self) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has no group of its own yet
                self.process.kill()
            self.process.join()


def run(jobs: list[Job]) -> list[tuple[Any, str]]:
    """What each returns and prints; they run at the same time. Raises ChildFailed."""
    with tempfile.TemporaryDirectory() as folder:
        logs, children = [Path(folder, str(number)) for number in range(len(jobs))], []
        try:
            for job, log in zip(jobs, logs, strict=True):
                children.append(_start(job, log))
            _wait(children)
        finally:
            for child in children:
                child.kill()
        outputs = [log.read_text(errors="replace") for log in logs]
    if any(child.fault for child in children):
        faults = [f"process {number} {child.fault}" for number, child in enumerate(children) if child.fault]
        tails = ["\n".join(output.splitlines()[-TAIL_LINES:]) for output in outputs]
        said = [f"-- process {number} --\n{tail}" for number, tail in enumerate(tails)]
        raise ChildFailed("\n".join(["; ".join(faults), *said]))
    return [(child.value, output) for child, output in zip(children, outputs, strict=True)]


def _start(job: Job, log: Path) -> _Child:
    log.touch()
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(job, theirs, str(log)), daemon=True)
    process.start()
    theirs.close()
    return _Child(process, ours)


def _wait(children: list[_Child]) -> None:
    until, waiting = time.monotonic() + LIMIT_S, list(children)
    while waiting and (left := until - time.monotonic()) > 0:
        ready = connection.wait([child.answers for child in waiting], left)
        for child in [child for child in waiting if child.answers in ready]:
            waiting.remove(child)
            child.hear()
            if child.fault:
                until = min(until, time.monotonic() + GRACE_S)


def _work(job: Job, answers: connection.Connection, log: str) -> None:
    """The child: what it starts is in its group, and what it prints, from C too, is in the file at once."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable()
    libc = ctypes.CDLL(None)
    libc.setlinebuf(ctypes.c_void_p.in_dll(libc, "stdout"))
    for name in [name for name in os.environ if name.startswith(DROPPED) and name not in KEPT]:
        del os.environ[name]
    # No daemon of this machine is to change how things are compressed.
    os.environ.update({"MGCOMP_SOCKET": "", "MGCOMP_LOG": "warn"} | job.environment)
    try:
        answers.send((None, job.function(*job.arguments)))
    except Exception as error:
        traceback.print_exc()
        answers.send((f"failed: {type(error).__name__}: {error}", None))
