# SPDX-License-Identifier: Apache-2.0
"""The program `lockstep` of a wheel: this process becomes it."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'native', 'lockstep')
    try:
        os.execv(program, ['lockstep', *sys.argv[1:]])
    except OSError as e:
        sys.exit(f'lockstep: {program}: {e.strerror}')
