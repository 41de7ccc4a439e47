#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts to real HTTP receivers that fail, are slow, reset, redirect or are down, from a watcher that is
killed at any moment: nothing is lost, nothing comes twice as far as a receiver can tell, order is kept.

ALERT_KILLS: how often it is killed (default 20)."""
import http.server
import json
import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
DRIVER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith('-') else None
TEMPLATES = ROOT / 'ops/templates'
KILLS = int(os.environ.get('ALERT_KILLS', '20'))
SEED = int(os.environ.get('ALERT_SEED', str(random.randrange(10**6))))
QUICK = ['retry-ms', '20', 'retry-most-ms', '60', 'answer-ms', '300']


class Receiver:
    """Answers by behave(request); keeps what it took, and drops what it has taken already, by its key."""

    def __init__(self, tls=None):
        self.tries, self.taken, self.repeats = [], {}, 0
        self.behave = lambda n: 200
        self.headers = []
        self.lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_POST(self):
                receiver.serve(self, self.rfile.read(int(self.headers.get('Content-Length', 0))))

            do_GET = do_POST

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request, address):
                pass

        self.server = Server(('127.0.0.1', 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f'http{"s" if tls else ""}://localhost:{self.port}/hook/secret'
        threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()

    def take(self, key, body):
        if key in self.taken:
            self.repeats += 1
            assert self.taken[key] == body, 'one key, two bodies'
        else:
            self.taken[key] = body

    def serve(self, request, body):
        with self.lock:
            n = len(self.tries)
            key = request.headers.get('Idempotency-Key')
            self.tries.append((request.command, request.path, dict(request.headers), body))
            what = self.behave(n)
            if what in (200, 202, 'lost', 'reset'):     # the last two: taken, but the yes does not get through
                self.take(key, body)
        extra = {}
        if isinstance(what, tuple):
            what, extra = what
        if what == 'slow':
            time.sleep(0.1)
            what = 500
        if what == 'never':
            time.sleep(0.6)
            return
        if what in ('lost', 'reset'):
            if what == 'reset':
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
            request.close_connection = True
            request.connection.close()
            return
        request.send_response(what)
        for name, value in extra.items():
            request.send_header(name, value)
        request.send_header('Content-Length', '0')
        request.end_headers()

    def bodies(self):
        return [json.loads(b) for b in self.taken.values()]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Driver:
    def __init__(self, state, *options, prefix=()):
        env = {**os.environ, 'no_proxy': '*'}
        self.process = subprocess.Popen([*prefix, DRIVER, str(state), *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.raised = set()
        for line in self.process.stdout:
            word, _, rest = line.rstrip('\n').partition(' ')
            if word == 'ready':
                self.why = rest
                return
            self.raised.add(rest)
        raise AssertionError(self.process.stderr.read())

    def send(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def tell(self, line):
        self.send(line)
        return self.process.stdout.readline().rstrip('\n')

    def counts(self):
        return json.loads(self.tell('counts'))

    def until(self, fine, seconds=20):
        end = time.time() + seconds
        while not fine(self.counts()):
            assert time.time() < end, f'in vain: {self.counts()}'
            time.sleep(0.02)

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()

    def kill(self):
        self.process.kill()
        left = self.process.stdout.read()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        return left


class Watched(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None)
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.state = self.dir / 'state'

    def receiver(self, **kw):
        r = Receiver(**kw)
        self.addCleanup(r.close)
        return r

    def driver(self, *options, **kw):
        d = Driver(self.state, *options, **kw)
        self.addCleanup(lambda: d.process.poll() is None and d.kill())
        return d


class Alerts(Watched):
    def alert(self, d, n=1):
        for i in range(n):
            self.assertTrue(d.tell(f'raise key{i} 2 rank {i} left "the" loop').startswith('done 1'))
            self.assertTrue(d.tell(f'clear key{i} it goes on').startswith('done 1'))

    def expect(self, r, n=1):
        for i in range(n):
            whats = [b['what'] for b in r.bodies() if b['key'] == f'key{i}']
            self.assertEqual(whats, ['raised', 'resolved'])
        self.assertEqual(len(r.taken), 2 * n)

    def test_a_good_receiver_gets_each_once(self):
        r = self.receiver()
        (self.dir / 'token').write_text('s3same\n')
        d = self.driver('webhook', r.url, 'token', str(self.dir / 'token'), *QUICK)
        self.alert(d, 5)
        d.until(lambda c: c['waiting'] == 0)
        self.expect(r, 5)
        self.assertEqual(len(r.tries), 10)
        method, path, headers, body = r.tries[0]
        self.assertEqual((method, path), ('POST', '/hook/secret'))
        self.assertEqual(headers['Authorization'], 'Bearer s3same')
        self.assertEqual(headers['Content-Type'], 'application/json')
        self.assertEqual(json.loads(body)['detail'], {'culprit': {'rank': 3}})
        d.end()

    def test_failures_of_all_kinds_lose_nothing_and_repeat_nothing(self):
        kinds = [500, 503, 'slow', 'never', 'reset', 'lost', 404, (429, {'Retry-After': '0'}),
                 (301, {'Location': 'file:///etc/passwd'}), (302, {'Location': 'http://localhost:1/'})]
        for kind in kinds:
            with self.subTest(kind=kind):
                r = self.receiver()
                self.state = self.dir / str(len(list(self.dir.iterdir())))
                r.behave = lambda n: kind if n < 3 else 200
                d = self.driver('webhook', r.url, *QUICK)
                self.alert(d, 2)
                d.until(lambda c: c['waiting'] == 0)
                self.expect(r, 2)
                self.assertGreaterEqual(d.counts()['failed'], 3)
                self.assertNotIn('secret', d.counts()['last_error'])
                d.end()

    def test_retry_after_is_waited_for(self):
        r = self.receiver()
        r.behave = lambda n: (429, {'Retry-After': '100'}) if n == 0 else 200
        d = self.driver('webhook', r.url, *QUICK)
        d.tell('raise hung 2 x')
        d.until(lambda c: c['failed'] == 1)
        d.tell('skip 90000')
        time.sleep(0.3)
        self.assertEqual(len(r.tries), 1)
        d.tell('skip 11000')
        d.until(lambda c: c['waiting'] == 0)
        d.end()

    def test_a_receiver_that_is_down_for_an_hour_gets_all(self):
        r = self.receiver()
        port = r.port
        r.close()
        d = self.driver('webhook', r.url, 'answer-ms', '400')
        for minute in range(60):
            if minute % 6 == 0:
                self.assertTrue(d.tell(f'raise key{minute // 6} 2 x').startswith('done 1'))
            if minute % 6 == 3:
                d.tell(f'clear key{minute // 6} y')
            d.tell('skip 60000')
            time.sleep(0.02)
        self.assertEqual(d.counts()['waiting'], 20)
        self.assertGreater(d.counts()['failed'], 5)
        again = Receiver.__new__(Receiver)
        socket_before = http.server.ThreadingHTTPServer.server_bind

        def bind(server):
            server.server_address = ('127.0.0.1', port)
            server.allow_reuse_address = True
            return socket_before(server)
        http.server.ThreadingHTTPServer.server_bind = bind
        try:
            again.__init__()
        finally:
            http.server.ThreadingHTTPServer.server_bind = socket_before
        self.addCleanup(again.close)
        d.tell('skip 400000')
        d.until(lambda c: c['waiting'] == 0)
        self.expect(again, 10)
        self.assertEqual(len(again.tries), 20)
        d.end()

    def test_the_end_waits_for_what_can_be_delivered(self):
        r = self.receiver()
        for behave, left in ((lambda n: 503 if n < 3 else 200, 'left 0\n'), (lambda n: 503, 'left 1\n')):
            d = self.driver('webhook', r.url, 'finish-ms', '1000', *QUICK)
            r.tries.clear()
            r.behave = behave
            d.send(f'raise {left[5]} 2 x')
            d.process.stdin.close()
            self.assertEqual(d.process.stdout.readlines()[-1], left)
            self.assertEqual(d.process.wait(10), 0)
            d.process.stdout.close()
            d.process.stderr.close()

    def test_refused_is_said_and_given_up(self):
        r = self.receiver()
        r.behave = lambda n: 400
        d = self.driver('webhook', r.url, *QUICK)
        d.tell('raise hung 2 x')
        d.until(lambda c: c['refused'] == 1)
        self.assertEqual(len(r.tries), 5)
        self.assertIn('refuses alert "hung" with 400', d.counts()['last_error'])
        d.end()

    def test_heartbeats_tell_a_dead_man_switch(self):
        r = self.receiver()
        d = self.driver('heartbeat', r.url, 'heartbeat-ms', '50')
        time.sleep(0.2)
        self.assertEqual(r.tries, [])
        d.tell('alive 1')
        d.until(lambda c: c['heartbeats'] >= 3)
        d.tell('alive 0')
        time.sleep(0.1)
        n = len(r.tries)
        time.sleep(0.3)
        self.assertEqual(len(r.tries), n)
        self.assertEqual(r.tries[0][0], 'GET')
        d.end()

    def test_certificates_are_verified(self):
        if not shutil.which('openssl'):
            self.skipTest('no openssl')
        key, cert = str(self.dir / 'key.pem'), str(self.dir / 'cert.pem')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
                        '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost',
                        '-addext', 'subjectAltName=DNS:localhost'], check=True, capture_output=True)
        r = self.receiver(tls=(cert, key))
        d = self.driver('webhook', r.url, *QUICK)
        d.tell('raise hung 2 x')
        d.until(lambda c: c['failed'] >= 2)
        self.assertEqual(r.tries, [])
        self.assertIn('certificate', d.counts()['last_error'])
        d.end()
        d = self.driver('webhook', r.url, 'ca', cert, *QUICK)     # the same target: it goes on
        d.until(lambda c: c['waiting'] == 0 and c['delivered'] == 1)
        self.assertEqual([b['what'] for b in r.bodies()], ['raised'])
        d.end()

    def test_a_command_gets_all_in_order(self):
        out = self.dir / 'out'
        d = self.driver('command', f'echo "$LOCKSTEP_ALERT_KEY $LOCKSTEP_ALERT_WHAT" >> {out}; test -s {out}.x || '
                        f'{{ echo x > {out}.x; exit 1; }}', *QUICK)
        self.alert(d, 1)
        d.until(lambda c: c['waiting'] == 0)
        self.assertEqual(out.read_text().split('\n')[:-1], ['key0 raised', 'key0 raised', 'key0 resolved'])
        d.end()

    def test_a_full_or_read_only_disk_is_said_and_survived(self):
        prefix = ['unshare', '-rm', 'sh', '-c', 'mount -t tmpfs -o size=1m,mode=0700 none "$1" && exec "$0" "$@"']
        self.state.mkdir(0o700)
        if subprocess.run([*prefix[:-1], 'mount -t tmpfs none "$0"', str(self.state)], capture_output=True).returncode:
            self.skipTest('no mount namespaces here')
        r = self.receiver()
        r.behave = lambda n: 503
        d = self.driver('webhook', r.url, *QUICK, prefix=prefix)
        inside = pathlib.Path(f'/proc/{d.process.pid}/root{self.state}')
        filler = os.open(inside / 'filler', os.O_WRONLY | os.O_CREAT)
        with self.assertRaises(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)
        whys = []
        for i in range(400):
            answer = d.tell(f'raise key{i} 2 ' + 'x' * 900)
            self.assertTrue(answer.startswith('done 1'))
            whys.append(answer[7:])
        self.assertEqual(whys[:20], [''] * 20)      # the reserve was there for that
        self.assertIn('No space left on device', whys[-1])
        self.assertIn('memory only', whys[-1])
        self.assertTrue(d.counts()['unsaved'])
        r.behave = lambda n: 200
        d.until(lambda c: c['waiting'] == 0)
        self.assertEqual(len(r.taken), 400)
        (inside / 'filler').unlink()
        d.tell('skip 31000')
        d.until(lambda c: not c['unsaved'])
        d.end()

        prefix[-1] = prefix[-1].replace('1m', '1m,ro')
        d = self.driver('webhook', r.url, *QUICK, prefix=prefix)
        self.assertIn('Read-only file system', d.why)
        self.assertIn('done 1', d.tell('raise ro 2 x'))
        d.until(lambda c: c['delivered'] == 1 and c['unsaved'])
        d.end()

    def test_killed_at_random_nothing_is_lost_or_comes_twice(self):
        rng = random.Random(SEED)
        r = self.receiver()
        behaviours = [200] * 6 + [500, 'lost', 'reset', (429, {'Retry-After': '0'})]
        r.behave = lambda n: rng.choice(behaviours)
        expected = {f'key{i}': [] for i in range(6)}    # what was done, by the numbers in the summaries
        number, open_operation, pids = 0, None, 0
        options = ['webhook', r.url, 'retry-ms', '5', 'retry-most-ms', '40', 'answer-ms', '400']
        for kill in range(KILLS + 1):
            d = self.driver(*options)
            if open_operation:                              # killed in the middle of it: it was, or it was not
                verb, key, text = open_operation
                if (key in d.raised) == (verb == 'raise'):
                    expected[key].append((verb, text))
            raised = {k for k, done in expected.items() if done and done[-1][0] == 'raise'}
            self.assertEqual(d.raised, raised, f'seed {SEED}, kill {kill}')
            end = time.time() + rng.random() * 0.06
            left = ''
            open_operation = None
            while kill < KILLS and time.time() < end:
                key = rng.choice(list(expected))
                verb = 'clear' if key in raised else 'raise'
                number += 1
                open_operation = (verb, key, str(number))
                line = f'{verb} {key} ' + ('2 ' if verb == 'raise' else '') + str(number)
                if rng.random() < 0.1:
                    d.send(line)                            # killed before it answers, perhaps
                    break
                self.assertTrue(d.tell(line).startswith('done 1'))
                expected[key].append((verb, str(number)))
                raised ^= {key}
                open_operation = None
                time.sleep(rng.random() * 0.01)
            if kill < KILLS:
                if rng.random() < 0.5:
                    time.sleep(rng.random() * 0.01)
                left = d.kill()
                if open_operation and left.startswith('done 1'):
                    expected[open_operation[1]].append((open_operation[0], open_operation[2]))
                    open_operation = None
        d.until(lambda c: c['waiting'] == 0, 60)
        self.assertEqual(d.counts()['damaged'], 0)
        d.end()
        lines = (self.state / 'alerts.log').read_bytes().split(b'\n')[:-1]
        self.assertTrue(lines and all(int(line[:8], 16) == zlib.crc32(line[9:]) for line in lines))
        self.assertTrue(number > KILLS)
        self.assertEqual(len(r.taken), sum(map(len, expected.values())))
        for key, done in expected.items():
            came = [('clear' if b['what'] == 'resolved' else 'raise', b['summary'])
                    for b in r.bodies() if b['key'] == key]
            self.assertEqual(came, done, f'seed {SEED}, {key}')
        print(f'seed {SEED}: {KILLS} kills, {number} changes, {len(r.tries)} tries, {len(r.taken)} taken, '
              f'{r.repeats} repeats with their key', file=sys.stderr)


def string(most=None, **more):
    return {'type': 'string', 'minLength': 1, **({'maxLength': most} if most else {}), **more}


TIME = string(pattern=r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$')
TEXT_OBJECT = {'type': 'object', 'required': ['type', 'text'], 'additionalProperties': False,
               'properties': {'type': {'enum': ['mrkdwn', 'plain_text']}, 'text': string(3000)}}
# What the receivers' documentation asks for.
FORMATS = {
    'pagerduty-events-v2.json': {
        'type': 'object', 'required': ['routing_key', 'event_action', 'payload', 'dedup_key'], 'additionalProperties': False,
        'properties': {
            'routing_key': string(), 'dedup_key': string(255), 'client': string(),
            'event_action': {'enum': ['trigger', 'acknowledge', 'resolve']},
            'payload': {'type': 'object', 'required': ['summary', 'source', 'severity'], 'additionalProperties': False,
                        'properties': {'summary': string(1024), 'source': string(), 'timestamp': TIME,
                                       'severity': {'enum': ['critical', 'warning', 'error', 'info']},
                                       'component': string(), 'group': string(), 'class': string(),
                                       'custom_details': {'type': 'object'}}}}},
    'slack.json': {
        'type': 'object', 'required': ['text'], 'additionalProperties': False,
        'properties': {'text': string(40000), 'blocks': {'type': 'array', 'maxItems': 50, 'items': {'oneOf': [
            {'type': 'object', 'required': ['type', 'text'], 'additionalProperties': False,
             'properties': {'type': {'const': 'section'}, 'text': TEXT_OBJECT}},
            {'type': 'object', 'required': ['type', 'elements'], 'additionalProperties': False,
             'properties': {'type': {'const': 'context'}, 'elements': {'type': 'array', 'minItems': 1, 'maxItems': 10,
                                                                        'items': TEXT_OBJECT}}}]}}}},
    'alertmanager.json': {
        'type': 'array', 'minItems': 1, 'items': {
            'type': 'object', 'required': ['labels'], 'additionalProperties': False,
            'properties': {'labels': {'type': 'object', 'minProperties': 1,
                                      'propertyNames': {'pattern': '^[a-zA-Z_][a-zA-Z0-9_]*$'},
                                      'additionalProperties': {'type': 'string'}},
                           'annotations': {'type': 'object', 'additionalProperties': {'type': 'string'}},
                           'startsAt': TIME, 'endsAt': TIME, 'generatorURL': {'type': 'string'}}}},
    'webhook.json': {'type': 'object', 'required': ['id', 'incident', 'what', 'key', 'severity', 'summary']},
}
FORMATS['alertmanager-heartbeat.json'] = FORMATS['alertmanager.json']


class Templates(Watched):
    """The templates in ops/, held against the formats that their receivers publish."""

    def life(self, name, **kw):
        """Raised, escalated by severity, resolved: the three bodies."""
        r = self.receiver()
        self.state = self.dir / name
        d = self.driver('webhook', r.url, 'template', str(TEMPLATES / name), *QUICK)
        d.tell('raise hung 1 rank 3 left the "loop" <&> for ' + 'x' * 2000)
        d.tell('raise hung 2 rank 3 is gone')
        d.tell('clear hung it goes on')
        d.until(lambda c: c['waiting'] == 0)
        d.end()
        return [json.loads(b) for b in r.taken.values()]

    def test_each_gives_what_its_receiver_takes(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest('no jsonschema')
        self.assertEqual(sorted(FORMATS), sorted(p.name for p in TEMPLATES.iterdir()))
        for name, schema in FORMATS.items():
            for body in self.life(name):
                with self.subTest(name=name):
                    jsonschema.validate(body, schema)

    def test_pagerduty_triggers_and_resolves_one_incident(self):
        bodies = self.life('pagerduty-events-v2.json')
        self.assertEqual([b['event_action'] for b in bodies], ['trigger', 'trigger', 'resolve'])
        self.assertEqual({b['dedup_key'] for b in bodies}, {'lockstep/llm/hung'})
        self.assertEqual([b['payload']['severity'] for b in bodies], ['warning', 'critical', 'critical'])
        self.assertEqual(bodies[0]['payload']['custom_details']['detail'], {'culprit': {'rank': 3}})

    def test_alertmanager_has_one_live_alert_and_then_none(self):
        live = {}
        for body in self.life('alertmanager.json'):
            for a in body:
                live[json.dumps(a['labels'], sort_keys=True)] = a['endsAt'] > time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(time.time() + 60))
            self.assertIn(sum(live.values()), (0, 1))
        self.assertEqual(list(live.values()), [False, False])

    def test_slack_gets_its_three_characters_as_entities(self):
        bodies = self.life('slack.json')
        self.assertIn('left the "loop" &lt;&amp;&gt; for', bodies[0]['text'])
        self.assertIn('resolved', bodies[2]['text'])


if __name__ == '__main__':
    if not DRIVER:
        sys.exit('usage: test_alerts.py DRIVER')
    try:
        __import__('ctypes').CDLL('libcurl.so.4')
    except OSError:
        print('skipped: no libcurl')
        sys.exit(77)
    unittest.main(verbosity=1)
