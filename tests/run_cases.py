#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every folder of tests/cases that has a case.json and checks what `lockstep diagnose --json` says.

Usage: run_cases.py LOCKSTEP [-v] [NAME...]     NAME: a folder of tests/cases, or the beginning of names;
                                               with a "-" before it: not those

case.json:
  "input"      path (or list of paths): below $LOCKSTEP_SHARED/data (default ../shared/data), else below
               the case's own folder. A case whose input lies in shared data that is not there is skipped,
               by name. The answer.json beside the traces of a folder is never given to the program.
  "make"       instead: a command (list of words), run in the project's root; {out} is an empty folder, and
               that folder is the input. {python} is this interpreter, {lockstep} the program.
  "copy"       names inside the input folder to give, as shell patterns (default: all)
  "args"       more arguments of diagnose; {case} is the case's folder
  "exit"       the status, or a list of the allowed ones
  "expect"     matched against the JSON as a subset:
                 an object   each key matches; a key may be a path ("job.ranks_missing")
                 an array    the same length, element by element
                 {"$any": [..]}      one of these matches
                 {"$has": [..]}      an array: each of these matches one of its elements
                 {"$none": x}        an array: no element matches x
                 {"$len": n}         an array's length
                 {"$near": x, "by": d}   a number within d
                 {"$min": x} {"$max": x}
                 {"$text": ".."}     a string that holds this
                 a number    equal to half of the last decimal that the JSON keeps (0.0005)
  "findings"   short for what most cases say of the findings that are no notes: a list, in any order, all of
               them: {"culprits": [ranks], "stages": [..], "cause": ".." or [..], "first_step": n}; [] is none.
               "more": true beside it allows others.
  "must_say", "must_not_say"   strings in the text report or on stderr (or not), whatever their case
"""
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = ROOT / 'tests/cases'
SHARED = pathlib.Path(os.environ.get('LOCKSTEP_SHARED') or ROOT / '../shared') / 'data'


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def lookup(doc, key):
    """The value at a key, which may be a path with dots; (found, value)."""
    if isinstance(doc, dict) and key in doc:
        return True, doc[key]
    for part in key.split('.'):
        if isinstance(doc, dict) and part in doc:
            doc = doc[part]
        elif isinstance(doc, list) and part.isdigit() and int(part) < len(doc):
            doc = doc[int(part)]
        else:
            return False, None
    return True, doc


def operator(want, have, at):
    """The mismatches of an object of $operators; None if it is none."""
    if '$any' in want:
        tries = [mismatches(w, have, at) for w in want['$any']]
        return [] if any(not t for t in tries) else [f'{at}: {have!r} is none of {want["$any"]!r}']
    if '$has' in want:
        return [f'{at}: nothing matches {w!r}' for w in want['$has']
                if not any(not mismatches(w, h, at) for h in have or [])]
    if '$none' in want:
        return [f'{at}: {h!r} should not be there' for h in have or []
                if not mismatches(want['$none'], h, at)]
    if '$len' in want:
        return [] if isinstance(have, list) and len(have) == want['$len'] else \
            [f'{at}: {have!r} has not {want["$len"]} elements']
    if '$text' in want:
        return [] if isinstance(have, str) and want['$text'] in have else \
            [f'{at}: {have!r} does not hold {want["$text"]!r}']
    if '$near' in want:
        return [] if is_number(have) and abs(have - want['$near']) <= want['by'] else \
            [f'{at}: {have!r}, not {want["$near"]} within {want["by"]}']
    if '$min' in want or '$max' in want:
        ok = is_number(have) and want.get('$min', have) <= have <= want.get('$max', have)
        return [] if ok else [f'{at}: {have!r} is outside {want!r}']
    return None


def mismatches(want, have, at='$'):
    if isinstance(want, dict):
        answer = operator(want, have, at)
        if answer is not None:
            return answer
        out = []
        for key, w in want.items():
            found, h = lookup(have, key)
            out += mismatches(w, h, f'{at}.{key}') if found else [f'{at}.{key} is missing']
        return out
    if isinstance(want, list):
        if not isinstance(have, list) or len(have) != len(want):
            return [f'{at}: {have!r}, not {want!r}']
        return [m for i, w in enumerate(want) for m in mismatches(w, have[i], f'{at}[{i}]')]
    if is_number(want) and is_number(have):
        return [] if abs(want - have) <= 0.000501 else [f'{at}: {have!r}, not {want!r}']
    return [] if want == have and type(want) == type(have) else [f'{at}: {have!r}, not {want!r}']


def finding_mismatches(case, doc):
    """The short form: the findings that are no notes against case["findings"]."""
    have = [f for f in doc['findings'] if f['severity'] != 'note']
    out = []
    for want in case['findings']:
        causes = want.get('cause')
        causes = causes if isinstance(causes, list) or causes is None else [causes]
        right = [f for f in have
                 if ('culprits' not in want or f['culprits']['ranks'] == want['culprits'])
                 and ('stages' not in want or f['culprits']['stages'] == want['stages'])
                 and (causes is None or f['cause'] in causes)
                 and ('first_step' not in want or (f['windows'] or [{}])[0].get('first_step') == want['first_step'])]
        if right:
            have.remove(right[0])
        else:
            out.append(f'no finding {want!r}')
    if have and (out or not case.get('more')):
        out += [f'there is a finding {f["cause"]} of ranks {f["culprits"]["ranks"]} stages {f["culprits"]["stages"]}'
                f' windows {[(w["first_step"], w["last_step"]) for w in f["windows"]]}' for f in have]
    return out


def resolve(folder, name):
    """(path, None), or (None, why it is skipped); a case's own files come first."""
    own = folder / name
    if own.exists():
        return own, None
    if not SHARED.is_dir():
        return None, 'no shared data'
    return SHARED / name, None


def copy_folder(path, patterns, to):
    for f in sorted(path.rglob('*')):
        name = str(f.relative_to(path))
        if f.is_file() and f.name != 'answer.json' and any(fnmatch.fnmatch(name, p) for p in patterns):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f, to / name)


def inputs(binary, case, folder, scratch):
    """Paths to give, or (None, why it is skipped)."""
    if 'make' in case:
        out = scratch / 'made'
        out.mkdir()
        words = [w.format(out=out, python=sys.executable, lockstep=binary) for w in case['make']]
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for answer in out.rglob('answer.json'):
            answer.unlink()
        return [str(out)], None
    paths = []
    names = case['input'] if isinstance(case['input'], list) else [case['input']]
    for i, name in enumerate(names):
        path, skip = resolve(folder, name)
        if skip:
            return None, skip
        if path.is_dir():
            to = scratch / str(i)
            to.mkdir()
            copy_folder(path, case.get('copy', ['*']), to)
            path = to
        paths.append(str(path))
    return paths, None


def run_case(binary, folder):
    """(list of mismatches, why skipped)"""
    case = json.loads((folder / 'case.json').read_text())
    with tempfile.TemporaryDirectory() as scratch:
        paths, skip = inputs(binary, case, folder, pathlib.Path(scratch))
        if skip:
            return [], skip
        argv = [binary, 'diagnose', *(a.format(case=folder) for a in case.get('args', []))]
        p = subprocess.run([*argv, '--json', *paths], capture_output=True, text=True, timeout=120)
        said = ''
        if 'must_say' in case or 'must_not_say' in case:
            t = subprocess.run([*argv, *paths], capture_output=True, text=True, timeout=120)
            said = (t.stdout + t.stderr).lower()
    out = []
    allowed = case.get('exit', [0, 1, 2])
    if p.returncode not in (allowed if isinstance(allowed, list) else [allowed]):
        out.append(f'exit {p.returncode}, not {allowed}; stderr: {p.stderr.strip()[-300:]}')
    try:
        doc = json.loads(p.stdout)
    except ValueError as e:
        return out + [f'no JSON: {e}; stderr: {p.stderr.strip()[-300:]}'], None
    out += mismatches(case.get('expect', {}), doc)
    if 'findings' in case:
        out += finding_mismatches(case, doc)
    flat = ' '.join(said.split())
    out += [f'does not say "{s}"' for s in case.get('must_say', []) if s.lower() not in flat]
    out += [f'says "{s}"' for s in case.get('must_not_say', []) if s.lower() in flat]
    return out, None


def main():
    words = sys.argv[1:]
    verbose = '-v' in words
    words = [w for w in words if w != '-v']
    binary = os.path.abspath(words.pop(0) if words else 'build/lockstep')
    only, leave = [w for w in words if w[0] != '-'], [w[1:] for w in words if w[0] == '-']
    right, wrong, skipped = 0, 0, 0
    for file in sorted(CASES.rglob('case.json')):
        name = str(file.parent.relative_to(CASES))
        if only and not any(name.startswith(w) for w in only) or any(name.startswith(w) for w in leave):
            continue
        try:
            bad, skip = run_case(binary, file.parent)
        except (subprocess.SubprocessError, OSError, ValueError, KeyError, TypeError) as e:
            bad, skip = [f'{type(e).__name__}: {e}'], None
        if skip:
            skipped += 1
            print(f'skipped: {skip}: {name}')
        elif bad:
            wrong += 1
            print(f'WRONG {name}')
            for line in bad[:40]:
                print(f'      {line}')
        else:
            right += 1
            if verbose:
                print(f'ok    {name}')
    print(f'{right} cases right, {wrong} wrong, {skipped} skipped')
    return 1 if wrong or not right + skipped else 0


if __name__ == '__main__':
    sys.exit(main())
