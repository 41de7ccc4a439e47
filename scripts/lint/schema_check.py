#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every golden JSON output, and what the program says of the samples now, validates against the
schema; and the schema itself is one."""
import json
import pathlib
import subprocess
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    schema = json.loads((ROOT / 'docs/diagnose.schema.json').read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    documents = {str(p.relative_to(ROOT)): p.read_text()
                 for p in sorted((ROOT / 'tests/golden').glob('*.json'))}
    for sample in sorted((ROOT / 'examples/demo').glob('*/')):
        if sample.is_dir():
            p = subprocess.run([sys.argv[1], 'diagnose', '--json', str(sample)],
                               capture_output=True, text=True)
            documents[f'diagnose --json {sample.relative_to(ROOT)}'] = p.stdout
    wrong = []
    for name, text in documents.items():
        for error in validator.iter_errors(json.loads(text)):
            wrong.append(f'{name}: {"/".join(map(str, error.absolute_path))}: {error.message[:200]}')
    if not documents:
        wrong.append('no golden output to validate')
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
