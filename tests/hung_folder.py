# SPDX-License-Identifier: Apache-2.0
"""A folder on a file system that stops to answer when it is told to, as a network file system does whose server is gone:
FUSE, spoken with the kernel directly. Who waits for it sleeps in the kernel, and no signal ends that, KILL neither.

    with HungFolder(there) as f:        # f.path shows what lies in `there`
        f.hang()                        # f.hang('fsync') only that call, f.hang('/a.log') only what is asked of that file
        f.answer()                      # all that waits is answered

Needs /dev/fuse and the right to mount: root, or a namespace of its own (f is None if neither can be)."""
import ctypes
import errno
import os
import pathlib
import select
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

NAMES = {1: 'lookup', 3: 'getattr', 4: 'setattr', 10: 'unlink', 14: 'open', 15: 'read', 16: 'write', 17: 'statfs', 18: 'release',
         20: 'fsync', 25: 'flush', 26: 'init', 27: 'opendir', 28: 'readdir', 29: 'releasedir', 35: 'create'}
FORGETS, NO_ANSWER = (2, 42), (2, 36, 38, 42)
libc = ctypes.CDLL(None, use_errno=True)


def attributes(st):
    return struct.pack('<6Q10I', st.st_ino, st.st_size, st.st_blocks, int(st.st_atime), int(st.st_mtime), int(st.st_ctime),
                       *(ns % 10**9 for ns in (st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns)),
                       st.st_mode, st.st_nlink, st.st_uid, st.st_gid, 0, 4096, 0)


class Server:
    def __init__(self, root, fd):
        self.fd, self.nodes, self.held, self.hung = fd, {1: root}, [], None

    def entry(self, path):
        st = os.lstat(path)
        node = next((n for n, p in self.nodes.items() if p == path), None) or max(self.nodes) + 1
        self.nodes[node] = path
        return struct.pack('<QQQQII', node, 0, 0, 0, 0, 0) + attributes(st)

    def do_init(self, path, body):
        return struct.pack('<IIIIHHIIHHI28x', 7, 31, 65536, 0, 8, 6, 65536, 1, 0, 0, 0)

    def do_lookup(self, path, body):
        return self.entry(os.path.join(path, body.rstrip(b'\0').decode()))

    def do_getattr(self, path, body):
        flags, _, fh = struct.unpack('<IIQ', body[:16])
        return struct.pack('<QII', 0, 0, 0) + attributes(os.fstat(fh) if flags & 1 else os.lstat(path))

    do_setattr = do_getattr

    def do_unlink(self, path, body):
        os.unlink(os.path.join(path, body.rstrip(b'\0').decode()))
        return b''

    def do_open(self, path, body):
        return struct.pack('<QII', os.open(path, struct.unpack('<I', body[:4])[0] & (os.O_ACCMODE | os.O_TRUNC)), 1, 0)

    def do_create(self, path, body):
        path = os.path.join(path, body[16:].rstrip(b'\0').decode())
        flags, mode = struct.unpack('<II', body[:8])
        fd = os.open(path, (flags & (os.O_ACCMODE | os.O_EXCL)) | os.O_CREAT, mode & 0o777)
        return self.entry(path) + struct.pack('<QII', fd, 1, 0)

    def do_read(self, path, body):
        fh, offset, size = struct.unpack('<QQI', body[:20])
        return os.pread(fh, size, offset)

    def do_write(self, path, body):
        fh, offset, size = struct.unpack('<QQI', body[:20])
        return struct.pack('<II', os.pwrite(fh, body[40:40 + size], offset), 0)

    def do_release(self, path, body):
        os.close(struct.unpack('<Q', body[:8])[0])
        return b''

    def do_fsync(self, path, body):
        return b''

    do_flush = do_releasedir = do_fsync

    def do_opendir(self, path, body):
        os.listdir(path)
        return struct.pack('<QII', 0, 0, 0)

    def do_readdir(self, path, body):
        _, offset, size = struct.unpack('<QQI', body[:20])
        out = b''
        for i, name in enumerate(['.', '..', *sorted(os.listdir(path))][offset:], offset + 1):
            mode = os.lstat(os.path.join(path, name)).st_mode
            raw = struct.pack('<QQII', 1000 + i, i, len(name.encode()), stat.S_IFMT(mode) >> 12) + name.encode()
            raw += b'\0' * (-len(raw) % 8)
            if len(out) + len(raw) > size:
                break
            out += raw
        return out

    def do_statfs(self, path, body):
        v = os.statvfs(self.nodes[1])
        return struct.pack('<5Q4I24x', v.f_blocks, v.f_bfree, v.f_bavail, v.f_files, v.f_ffree, v.f_bsize, 255, v.f_frsize, 0)

    def named(self, opcode, node, raw):
        if opcode == 1:
            return '/' + raw[40:].rstrip(b'\0').decode()
        return '/' + os.path.basename(self.nodes.get(node, ''))

    def serve(self, raw):
        _, opcode, unique, node = struct.unpack('<IIQQ', raw[:24])
        name = NAMES.get(opcode, str(opcode))
        if opcode in NO_ANSWER:
            return
        if self.hung is not None and name != 'init' and (not self.hung or self.hung & {name, self.named(opcode, node, raw)}):
            self.held.append(raw)
            return
        try:
            error, out = 0, getattr(self, 'do_' + name)(self.nodes.get(node, ''), raw[40:])
        except AttributeError:
            error, out = -errno.ENOSYS, b''
        except OSError as e:
            error, out = -e.errno, b''
        try:
            os.write(self.fd, struct.pack('<IiQ', 16 + len(out), error, unique) + out)
        except OSError:     # who asked is gone
            pass

    def run(self):
        while True:
            ready, _, _ = select.select([self.fd, 0], [], [])
            if 0 in ready:
                word = os.read(0, 4096).decode().split()
                if not word:
                    return
                self.hung = set(word[1:]) if word[0] == 'hang' else None
                held, self.held = self.held, []
                for raw in held:
                    self.serve(raw)
                print('done', flush=True)
            if self.fd in ready:
                try:
                    self.serve(os.read(self.fd, 1 << 18))
                except OSError as e:
                    if e.errno != errno.ENOENT and e.errno != errno.EINTR:
                        return


def main(root, path):
    fd = os.open('/dev/fuse', os.O_RDWR)
    if libc.mount(b'hung', path.encode(), b'fuse.hung', 6, f'fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}'
                  .encode()) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    print('done', flush=True)
    Server(root, fd).run()


class HungFolder:
    def __init__(self, there):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-hung-'))
        self.server = subprocess.Popen([sys.executable, __file__, str(there), str(self.path)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.works = self.server.stdout.readline() == 'done\n'

    def _tell(self, *words):
        self.server.stdin.write(' '.join(words) + '\n')
        self.server.stdin.flush()
        self.server.stdout.readline()

    def hang(self, *calls):
        self._tell('hang', *calls)

    def answer(self):
        self._tell('answer')

    def close(self):
        self.server.kill()      # which ends the connection: all that waits gets an error
        self.server.communicate()
        libc.umount2(str(self.path).encode(), 2)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def may_mount():
    """Tries; one who is not root gets a namespace of his own, in which he is."""
    if not os.path.exists('/dev/fuse'):
        return False
    uid, gid = os.getuid(), os.getgid()
    if uid:
        if libc.unshare(0x10000000 | 0x20000) < 0:
            return False
        try:
            pathlib.Path('/proc/self/setgroups').write_text('deny')
            pathlib.Path('/proc/self/uid_map').write_text(f'0 {uid} 1')
            pathlib.Path('/proc/self/gid_map').write_text(f'0 {gid} 1')
        except OSError:
            return False
    with tempfile.TemporaryDirectory() as there, HungFolder(there) as f:
        return f.works


if __name__ == '__main__':
    main(*sys.argv[1:])
