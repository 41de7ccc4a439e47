#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the alerts' journal and templates: sound ones, and each kind of damage."""
import json
import pathlib
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = ROOT / 'fuzz/corpus/alert'
A, B = '0123456789abcdef', 'fedcba9876543210'


def begin(**more):
    return {'lockstep-alerts': 1, 'origin': A, 'next': 5, 'known': [A, B], **more}


def event(n, key='hung', what=0, **more):
    return {'event': n, 'id': f'{A}-{n}', 'what': what, 'key': key, 'severity': 2, 'before': 1, 'first': 1, 'escalations': 0,
            'time_ms': 1700000000000, 'since_ms': 1700000000000, 'summary': 'rank 3 left', 'detail': '{"culprit":3}',
            'to': [A, B], **more}


def settled(n, to=A):
    return {'settled': n, 'to': to, 'how': 'delivered'}


LIFE = [begin(), event(5), event(6, what=1), settled(5), settled(5, B), event(7, what=2), event(8, 'slow', to=[A]),
        settled(6), settled(8), settled(7)]
JOURNALS = {
    'life': LIFE,
    'no_begin': LIFE[1:],
    'doubled': [begin(), event(5), event(5), event(4)],
    'strange': [begin(next=-1), begin(origin='x'), begin(known=[1, 'x', None]), event(0), event(5, what=3), event(6, key=''),
                event(7, detail='{'), event(8, to='x'), event(9, severity=99), event(10, summary='a\0b'), settled(99), settled(5, 'y'),
                {}, {'settled': 'x'}, event(2**62), event(11, time_ms=-5), event(12, id='x' * 60)],
    'raised_twice': [event(1), event(2), settled(1), settled(1, B), event(3, 'b', 2, to=[]), event(4, 'hung', 2, to=[])],
    'long': [event(1, summary='x' * 1000), event(2, summary='x' * 1001), event(3, key='k' * 200), event(4, key='k' * 201)],
}
TEMPLATES = {
    'fields': 'x {{a}} {{ b }} {{raw:a.b}} {{json:a}} {{markup:b}} {{c}}',
    'sections': '{{#a}}A{{#b}}B{{/b}}{{^c}}C{{/c}}{{/a}}{{^a}}n{{/a}}',
    'nested': '{{#a}}' * 17,
    'crossed': '{{#a}}{{#b}}{{/a}}{{/b}}',
    'open': '{{a', 'close': 'a}} {{}} {{#}} {{/a}}', 'unknown': 'a\n{{aa}}', 'dots': '{{a..b}}{{.a}}{{a.}}',
    'filter': '{{raw:}}{{raw:json:a}}',
}


def put(name, data):
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / name).write_bytes(data)


def lines(records):
    return [json.dumps(r, separators=(',', ':')).encode() for r in records]


def main():
    for name, records in JOURNALS.items():
        put(f'objects_{name}', b'J' + b'\n'.join(lines(records)) + b'\n')
    summed = b''.join(b'%08x %s\n' % (zlib.crc32(line), line) for line in lines(LIFE))
    put('journal', summed)
    put('journal_torn', summed[:-30])
    put('journal_bent', summed.replace(b'hung', b'hunh', 1))
    put('journal_noise', b'\0\xff\n' + summed + b'\n\n00000000 \n')
    for name, text in TEMPLATES.items():
        put(f'template_{name}', b'T' + text.encode())
    for path in sorted((ROOT / 'ops/templates').iterdir()):
        put(f'template_{path.stem}', b'T' + path.read_bytes().replace(b'summary}}', b'b}}').replace(b'{{', b'{{a.', 1))


if __name__ == '__main__':
    main()
