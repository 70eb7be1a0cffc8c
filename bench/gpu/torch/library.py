"""The part of mgcomp's C API that the checks call. Names, layouts and numbers are those of mgcomp.h."""

import ctypes
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

ABI = 1
BF16 = 5  # mgcompElement
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # mgcompMemcpyKind
SUM_OF_I32, SUM_OF_BF16, SUM_OF_F32 = 2, 9, 10  # mgcompDatatype
SUM = 0  # mgcompOperation
Handle = c_uint64  # a struct of one number, which is passed as the number is


class MgcompError(Exception):
    """A call has failed; the text is the library's."""


class PeerCopierOptions(Structure):
    _fields_ = [("policy", c_char_p), ("lambdaGbps", c_double), ("linkGbps", c_double), ("linkLatencyNs", c_uint64),
                ("gateBytes", c_uint64), ("segmentBytes", c_uint64), ("mostBytes", c_uint64)]


class PeerCopyReport(Structure):
    _fields_ = [("rawBytes", c_uint64), ("codedBytes", c_uint64), ("algorithm", c_uint32), ("throughHost", c_uint32)]


class MemcpyReport(Structure):
    _fields_ = [("rawBytes", c_uint64), ("codedBytes", c_uint64), ("algorithm", c_uint32), ("reserved", c_uint32),
                ("encodeNs", c_uint64), ("decodeNs", c_uint64), ("tookNs", c_uint64)]


class NodeOptions(Structure):
    _fields_ = [("policy", c_char_p), ("connectTimeoutNs", c_uint64), ("silenceTimeoutNs", c_uint64),
                ("pieceBytes", c_uint32), ("codecThreads", c_uint32), ("noChecksum", c_uint32)]


class NodeStats(Structure):
    _fields_ = [("transfers", c_uint64), ("rawBytes", c_uint64), ("codedBytes", c_uint64), ("encodeNs", c_uint64),
                ("decodeNs", c_uint64)]


_ID = POINTER(Handle)
_SIGNATURES = {
    "mgcompCreatePeerCopier": (c_uint32, c_uint32, POINTER(PeerCopierOptions), _ID),
    "mgcompMemcpyPeerAsync": (Handle, c_void_p, c_void_p, c_size_t, c_uint32, c_void_p),
    "mgcompGetPeerCopyReport": (Handle, c_void_p, POINTER(PeerCopyReport)),
    "mgcompDestroyPeerCopier": (Handle,),
    "mgcompCreateCopier": (c_uint32, c_int32, _ID),
    "mgcompMemcpyCompressed": (Handle, c_void_p, c_void_p, c_size_t, c_uint32, c_uint32, c_char_p, c_void_p,
                               POINTER(MemcpyReport)),
    "mgcompDestroyCopier": (Handle,),
    "mgcompCreateOffloadQueue": (c_uint32, c_uint32, c_char_p, c_uint64, _ID),
    "mgcompOffload": (Handle, c_void_p, c_size_t, c_uint32, _ID),
    "mgcompWaitOffload": (Handle, Handle, POINTER(MemcpyReport)),
    "mgcompPrefetch": (Handle, Handle, c_void_p, c_size_t, _ID),
    "mgcompWaitRequest": (Handle, POINTER(c_uint64)),
    "mgcompDestroyOffloadQueue": (Handle,),
    "mgcompStartNodeShm": (c_char_p, c_uint32, c_uint32, POINTER(NodeOptions), _ID),
    "mgcompWaitForPeers": (Handle, c_uint64),
    "mgcompGetNodeStats": (Handle, POINTER(NodeStats)),
    "mgcompDestroyNode": (Handle,),
    "mgcompCreateCommunicator": (Handle, _ID),
    "mgcompBarrier": (Handle, _ID),
    "mgcompBroadcast": (Handle, c_uint32, c_void_p, c_size_t, c_uint32, _ID),
    "mgcompAllGather": (Handle, c_void_p, c_size_t, c_void_p, c_size_t, c_uint32, _ID),
    "mgcompAllToAll": (Handle, c_void_p, c_size_t, c_void_p, c_size_t, c_uint32, _ID),
    "mgcompAllReduce": (Handle, c_void_p, c_size_t, c_void_p, c_size_t, c_uint32, c_uint32, _ID),
    "mgcompDestroyCommunicator": (Handle,),
}


def load(path: str) -> ctypes.CDLL:
    """The library, whose functions raise MgcompError where they fail."""
    library = ctypes.CDLL(path)

    def checked(result: int, function: Callable, _arguments: tuple) -> None:
        if result != 0:
            why = c_char_p()
            library.mgcompLastError(byref(why))
            raise MgcompError(f"{function.__name__}: {(why.value or b'').decode()} (result {result})")

    if library.mgcompAbiVersion() != ABI:
        raise MgcompError(f"{path} has ABI {library.mgcompAbiVersion()}, not {ABI}")
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype, function.errcheck = arguments, c_uint32, checked
    return library


def create(function: Callable, *arguments: object) -> Handle:
    """What a function makes whose last argument is the place for the handle."""
    handle = Handle()
    function(*arguments, byref(handle))
    return handle
