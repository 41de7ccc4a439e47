#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package as a folder that runs, or as a wheel; with the standard library alone, so that it needs no network.

    scripts/wheel.py tree BUILD FOLDER     FOLDER/lockstep with the extension and native/liblockstep.so, FOLDER/site
    scripts/wheel.py wheel BUILD FOLDER    FOLDER/lockstep-VERSION-cp310-abi3-PLATFORM.whl, which also carries the program
                                           `lockstep` and the libraries that it is linked to

BUILD is a folder of meson's in which all is built, for a wheel with -Dc_link_args='-Wl,-rpath,$ORIGIN/lib'. The
platform's tag says the newest glibc that anything in the wheel asks for.
"""
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Of a system, not carried.
SYSTEM = re.compile(r'^(ld-linux.*|libc|libm|libdl|libpthread|librt|linux-vdso)\.so')
PTH = "import os; os.environ.get('LOCKSTEP_AUTO', '0') != '0' and __import__('_lockstep_boot').install()\n"
METADATA = """Metadata-Version: 2.1
Name: lockstep
Version: {version}
Summary: Names the rank that breaks the lockstep of a training job, while the job runs
License: Apache-2.0
Requires-Python: >=3.10
"""
WHEEL = """Wheel-Version: 1.0
Generator: lockstep
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY = '[console_scripts]\nlockstep = lockstep._program:main\n'


def version():
    with open(os.path.join(ROOT, 'meson.build'), encoding='utf-8') as f:
        return re.search(r"version: '([^']+)'", f.read()).group(1)


def tree(build, folder):
    """What the package needs in place, with the extension and the library beside it."""
    package = os.path.join(folder, 'lockstep')
    shutil.rmtree(package, ignore_errors=True)
    source = os.path.join(ROOT, 'python')
    shutil.copytree(os.path.join(source, 'lockstep'), package, ignore=shutil.ignore_patterns('*.c', '__pycache__'))
    shutil.copytree(os.path.join(source, 'site'), os.path.join(folder, 'site'), dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copy(os.path.join(source, '_lockstep_boot.py'), folder)
    shutil.copy(os.path.join(build, 'python', '_lockstep.abi3.so'), package)
    os.makedirs(os.path.join(package, 'native'))
    shutil.copy(os.path.join(build, 'liblockstep.so'), os.path.join(package, 'native'))


def linked(program):
    """[(name, path)] of the libraries that are carried."""
    out = subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout
    found = re.findall(r'^\s*(\S+) => (\S+) \(', out, re.M)
    return [(name, path) for name, path in found if not SYSTEM.match(name)]


def add_program(build, folder):
    native = os.path.join(folder, 'lockstep', 'native')
    os.makedirs(os.path.join(native, 'lib'))
    program = os.path.join(build, 'src', 'cmd', 'lockstep')
    program = program if os.path.exists(program) else os.path.join(build, 'lockstep')
    shutil.copy(program, native)
    for name, path in linked(program):
        shutil.copy(path, os.path.join(native, 'lib', name))
    subprocess.run(['strip', '--strip-unneeded', os.path.join(native, 'lockstep')], check=False)


def glibc(folder):
    """The newest glibc, as its minor number, that a file in the folder asks for."""
    newest = 17
    for path in files(folder):
        with open(path, 'rb') as f:
            data = f.read()
        if data.startswith(b'\x7fELF'):
            newest = max([newest] + [int(m) for m in re.findall(rb'GLIBC_2\.(\d+)', data)])
    return newest


def files(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def digest(data):
    return 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()


def put(wheel, record, name, data, mode=0o644):
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))     # the same bytes for the same contents
    info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)
    record.append(f'{name},{digest(data)},{len(data)}')


def write_wheel(build, out):
    with tempfile.TemporaryDirectory() as folder:
        tree(build, folder)
        # for `lockstep trace` of the wheel; the .pth serves every other start
        shutil.move(os.path.join(folder, 'site'), os.path.join(folder, 'lockstep', 'python', 'site'))
        add_program(build, folder)
        with open(os.path.join(folder, 'lockstep.pth'), 'w', encoding='utf-8') as f:
            f.write(PTH)
        tag = f'cp310-abi3-manylinux_2_{glibc(folder)}_{platform.machine()}'
        os.makedirs(out, exist_ok=True)
        path, record = os.path.join(out, f'lockstep-{version()}-{tag}.whl'), []
        info = f'lockstep-{version()}.dist-info'
        with zipfile.ZipFile(path, 'w') as wheel:
            for file in files(folder):
                with open(file, 'rb') as f:
                    put(wheel, record, os.path.relpath(file, folder), f.read(), os.stat(file).st_mode & 0o777)
            put(wheel, record, f'{info}/METADATA', METADATA.format(version=version()).encode())
            put(wheel, record, f'{info}/WHEEL', WHEEL.format(tag=tag).encode())
            put(wheel, record, f'{info}/entry_points.txt', ENTRY.encode())
            lines = '\n'.join([*record, f'{info}/RECORD,,', ''])
            wheel.writestr(zipfile.ZipInfo(f'{info}/RECORD', (2020, 1, 1, 0, 0, 0)), lines)
    print(path)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ('tree', 'wheel'):
        sys.exit(__doc__)
    (tree if sys.argv[1] == 'tree' else write_wheel)(sys.argv[2], sys.argv[3])


if __name__ == '__main__':
    main()
