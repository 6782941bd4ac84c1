"""attempt.py NAME ARGUMENT... tries what a shell can not.

It exits with 0 if the attempt succeeds; else it prints the error and exits with 1.
"""

import ctypes
import fcntl
import json
import os
import platform
import select
import signal
import socket
import struct
import sys
import termios

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result == -1:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
    return result


def syscall(amd64, arm64, *args):
    number = amd64 if platform.machine() == "x86_64" else arm64
    return check(libc.syscall(number, *args))


def ptrace_seize(pid):
    PTRACE_SEIZE = 0x4206
    check(libc.ptrace(PTRACE_SEIZE, int(pid), None, None))


def read_memory(pid):
    """Reads the other process as process_vm_readv and through /proc."""
    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]

    buf = ctypes.create_string_buffer(8)
    local = Iovec(ctypes.addressof(buf), 8)
    # Both processes were started with this very call, so any mapped address
    # does; without the right to look there is no telling which, and it fails
    # with EPERM before the address is looked at.
    try:
        with open(f"/proc/{pid}/maps") as f:
            start = int(f.readline().split("-")[0], 16)
    except OSError:
        start = 0x400000
    remote = Iovec(start, 8)
    check(libc.process_vm_readv(int(pid), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))


def open_file(path, flags):
    os.close(os.open(path, getattr(os, flags)))


def pidfd_getfd(pid):
    """Takes a descriptor of another process."""
    fd = os.pidfd_open(int(pid))
    check(libc.syscall(438, fd, 0, 0))


def pidfd_signal(pid):
    signal.pidfd_send_signal(os.pidfd_open(int(pid)), 0)


def abstract(name):
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0" + name)


def abstract_datagram(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.sendto(b"x", "\0" + name)


def type_into(path):
    """TIOCSTI: types a byte into a terminal."""
    fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(fd, termios.TIOCSTI, b"\n")


def control(path):
    """Connects to a runner as a server would and asks it to end its job.

    Succeeds if the runner listens to it: says anything, or keeps the connection.
    """
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
    except FileNotFoundError:
        raise SystemExit("no such socket: the attempt is wrong")
    hello, terminate = 1, 7
    try:
        for kind, body in (hello, {"version": 1}), (terminate, {"limit": 0}):
            text = json.dumps(body).encode()
            s.sendall(struct.pack("<IB", len(text), kind) + text)
        if select.select([s], [], [], 10)[0] and not s.recv(1):
            raise PermissionError(1, "turned away")
    except (BrokenPipeError, ConnectionResetError):
        raise PermissionError(1, "turned away")


def lock(path):
    """Takes the lock by which a runner knows its server."""
    fd = os.open(path, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def new_user():
    CLONE_NEWUSER = 0x10000000
    check(libc.unshare(CLONE_NEWUSER))


def clone3_user():
    """A user namespace by the call whose flags no filter sees."""
    CLONE_NEWUSER = 0x10000000
    args = struct.pack("<8Q", CLONE_NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = syscall(435, 435, args, len(args))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def io_uring():
    syscall(425, 425, 1, ctypes.create_string_buffer(120))


def keyctl():
    KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION = 0, -3
    syscall(250, 219, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION, 1)


def mount_over(path):
    CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x4000 | 1 << 18
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(None, b"/", None, MS_REC_PRIVATE, None))
    check(libc.mount(b"x", path.encode(), b"tmpfs", 0, None))


def enter_mounts(pid):
    with open(f"/proc/{pid}/ns/mnt") as f:
        check(libc.setns(f.fileno(), 0))


def by_handle(path):
    """Opens a file by its handle, past every directory."""
    handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 136)
    mount_id = ctypes.c_int()
    AT_FDCWD = -100
    check(libc.name_to_handle_at(AT_FDCWD, path.encode(), handle, ctypes.byref(mount_id), 0))
    root = os.open(".", os.O_RDONLY)
    check(libc.open_by_handle_at(root, handle, os.O_RDONLY))


def get(url, token=""):
    """Asks the API to run a job."""
    import urllib.error
    import urllib.request

    req = urllib.request.Request(url, json.dumps({"script": "echo ran"}).encode())
    if token:
        req.add_header("Authorization", "Bearer " + token)
    try:
        urllib.request.urlopen(req).read()
    except urllib.error.HTTPError as e:
        raise PermissionError(1, f"HTTP {e.code}")


ATTEMPTS = {
    f.__name__: f
    for f in (
        ptrace_seize, read_memory, open_file, pidfd_getfd, pidfd_signal, abstract, abstract_datagram,
        type_into, control, lock, new_user, clone3_user, io_uring, keyctl, mount_over, enter_mounts, by_handle, get,
    )
}
ATTEMPTS |= {
    "truncate": lambda path: os.truncate(path, 0),
    "rename": os.rename,
    "link": os.link,
    "kill": lambda pid: os.kill(int(pid), 0),
    "connect": lambda path: socket.socket(socket.AF_UNIX).connect(path),
    "mknod": lambda path: os.mknod(path, 0o60600, os.makedev(7, 0)),
}

if __name__ == "__main__":
    try:
        ATTEMPTS[sys.argv[1]](*sys.argv[2:])
    except OSError as e:
        sys.exit(f"{e.strerror}")
