// Node's gRPC library, @grpc/grpc-js, as a client of sluiced. ../run.py describes the test cases.
//
// Usage: NODE_PATH=DIRECTORY client.js PROTO_DIRECTORY FLAG...
// DIRECTORY is the node_modules that tests/support/install_npm.sh has made.
// run.py passes the flags and describes them.
'use strict';

const assert = require('assert').strict;
const fs = require('fs');
const readline = require('readline');
const { parseArgs } = require('util');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const descriptor = require('protobufjs/ext/descriptor');

const TIMEOUT = 20_000;  // milliseconds: longer than any call takes
const MANY = 100_000;  // the burst of /many
const MIB = 1 << 20;

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(['address', 'silent', 'token', 'tls-ca', 'only'].map(
    (name) => [name, { type: 'string' }])),
});

// --- services and calls -------------------------------------------------------------------------

const { sluice, grpc: standard } = grpc.loadPackageDefinition(loader.loadSync(
  ['sluice/v1/rate_limiter.proto', 'sluice/v1/admin.proto', 'grpc/health/v1/health.proto',
    'grpc/reflection/v1alpha/reflection.proto'],
  { includeDirs: [positionals[0]], keepCase: true, enums: String, longs: Number,
    oneofs: true }));

// A client of `Service`. It has its own channel, unless `options` has a channelOverride.
function connect(Service, options = {}, address = given.address) {
  if (given['tls-ca'] === undefined) {
    return new Service(address, grpc.credentials.createInsecure(), options);
  }
  // Node warns if the server name for TLS is an IP address.
  return new Service(address, grpc.credentials.createSsl(fs.readFileSync(given['tls-ca'])),
    { 'grpc.ssl_target_name_override': 'localhost', ...options });
}

const limiter = connect(sluice.v1.RateLimiter);
const onTheSameChannel = { channelOverride: limiter.getChannel() };
const admin = connect(sluice.v1.Admin, onTheSameChannel);
const health = connect(standard.health.v1.Health, onTheSameChannel);
const reflector = connect(standard.reflection.v1alpha.ServerReflection, onTheSameChannel);

const within = (milliseconds) => ({ deadline: Date.now() + milliseconds });

// The response of a unary call.
function call(client, method, request, metadata = new grpc.Metadata(), timeout = TIMEOUT) {
  return new Promise((resolve, reject) => {
    client[method](request, metadata, within(timeout),
      (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function check(user, endpoint = '/many', { more = {}, ...fields } = {}) {
  return { domain: 'clients', attributes: { endpoint, user, ...more }, ...fields };
}

// `count` checks. The request_id of a check is `name` with a number, from 0 on.
function checks(count, user, name = '', more = {}) {
  return Array.from({ length: count },
    (_, i) => check(user, '/many', { request_id: `${name}${i}`, more }));
}

const one = (request, timeout) => call(limiter, 'CheckLimit', request, undefined, timeout);
const remaining = (answer) => answer.limits[0].remaining;
const decisions = (answers) => answers.map((answer) => answer.decision.replace('DECISION_', ''));

// The messages that a stream receives, in order. They may arrive before the test reads them.
class Receiver {
  constructor(stream) {
    this.stream = stream;
    this.received = [];
    this.status = new Promise((resolve) => { stream.on('status', resolve); });
    stream.on('error', () => {});  // `status` reports it, too
    stream.on('data', (message) => { this.received.push(message); this.wake?.(); });
    this.status.then(() => { this.ended = true; this.wake?.(); });
  }

  async next() {
    while (this.received.length === 0) {
      if (this.ended) throw new Error(`the stream has ended: ${(await this.status).details}`);
      await new Promise((resolve) => { this.wake = resolve; });
    }
    return this.received.shift();
  }

  async expectEnd(code) {
    const status = await this.status;
    assert.equal(grpc.status[status.code], grpc.status[code], status.details);
    assert.deepEqual(this.received, [], 'received before the end');
  }
}

// A CheckLimitStream.
class Stream extends Receiver {
  constructor(client = limiter, timeout = TIMEOUT) {
    super(client.CheckLimitStream(within(timeout)));
  }

  send(some) { this.stream.write({ checks: some }); }

  async results(count) {
    const found = [];
    while (found.length < count) found.push(...(await this.next()).results);
    assert.equal(found.length, count, 'results');
    return found.map((result) => result.response);
  }
}

// Expects that `promise` is rejected with an error with `code`. Returns the error's message.
async function expectCode(code, promise) {
  const error = await promise.then(
    (answer) => assert.fail(`an answer: ${JSON.stringify(answer).slice(0, 200)}`), (e) => e);
  assert.equal(grpc.status[error.code], grpc.status[code], error.message);
  return error.details;
}

// Sends a line to run.py, which stops the server. Returns when the server has been restarted.
async function ask(line) {
  const input = readline.createInterface({ input: process.stdin });
  console.log(line);
  const answer = await new Promise((resolve) => { input.once('line', resolve); });
  input.close();
  assert.equal(answer, 'started');
}

async function expectChannelWorks(user) {
  const metadata = new grpc.Metadata({ waitForReady: true });
  const answer = await call(limiter, 'CheckLimit', check(user), metadata);
  assert.equal(remaining(answer), MANY - 1);
}

// --- tests --------------------------------------------------------------------------------------

const CHECKS = {
  async unary() {
    const answers = [];
    for (const id of ['u0', 'u1', 'u2']) {
      answers.push(await one(check('unary', '/pay', { request_id: id })));
    }
    assert.deepEqual(decisions(answers), ['ALLOWED', 'ALLOWED', 'DENIED']);
    assert.deepEqual(answers.map((answer) => answer.request_id), ['u0', 'u1', 'u2']);
    assert.equal(remaining(answers[0]), 1);
    const { seconds } = answers[2].retry_after;
    assert.ok(seconds > 3500 && seconds <= 3600, `retry_after ${seconds} s`);
  },

  async batch() {
    const sent = ['b0', 'b1', 'b2', 'b3'].map((id) => check('batch', '/pay', { request_id: id }));
    sent[1].domain = '';
    const { results } = await call(limiter, 'CheckLimits', { checks: sent });
    assert.deepEqual(results.map((result) => result.result),
      ['response', 'error', 'response', 'response']);
    assert.equal(results[1].error.code, grpc.status.INVALID_ARGUMENT);
    const answers = [0, 2, 3].map((i) => results[i].response);
    assert.deepEqual(decisions(answers), ['ALLOWED', 'ALLOWED', 'DENIED']);
    assert.deepEqual(answers.map((answer) => answer.request_id), ['b0', 'b2', 'b3']);
  },

  async stream() {
    const sent = checks(100, 'stream', 's');
    const calls = new Stream();
    calls.send(sent.slice(0, 20));
    const answers = await calls.results(20);
    for (let i = 20; i < 100; i += 20) calls.send(sent.slice(i, i + 20));
    calls.stream.end();
    answers.push(...await calls.results(80));
    await calls.expectEnd(grpc.status.OK);
    assert.equal(new Set(answers.map((answer) => answer.request_id)).size, 100);
    assert.equal(Math.min(...answers.map(remaining)), MANY - 100);
  },

  async metadata() {
    await expectCode(grpc.status.UNAUTHENTICATED, call(admin, 'ListRules', {}));
    const metadata = new grpc.Metadata();
    metadata.set('authorization', `Bearer ${given.token}`);
    metadata.set('x-long', 'v'.repeat(4096));
    metadata.set('x-all-bytes-bin', Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
    const { rules } = await call(admin, 'ListRules', {}, metadata);
    assert.deepEqual(rules.map((rule) => rule.rule), ['pay', 'crowd', 'many']);
  },

  async error_message() {
    const request = check('error', '/many', { more: { größe: 'v'.repeat(8193) } });
    const text = await expectCode(grpc.status.INVALID_ARGUMENT, one(request));
    assert.ok(text.includes('größe'), `message: ${text}`);
  },

  async large_batch() {
    const sent = checks(1000, 'large', 'l', { note: 'n'.repeat(800) });
    const { results } = await call(limiter, 'CheckLimits', { checks: sent });
    assert.deepEqual(results.map((result) => result.response.request_id),
      sent.map((request) => request.request_id));
    assert.equal(remaining(results[999].response), MANY - 1000);
  },

  async too_large() {
    const request = check('u'.repeat(5 * MIB));
    await expectCode(grpc.status.RESOURCE_EXHAUSTED, one(request));
    await one(check('after'));
  },

  async unknown_method() {
    const nothing = () => Buffer.alloc(0);
    for (const path of ['/sluice.v1.RateLimiter/NoSuchMethod', '/no.such.Service/CheckLimit']) {
      await expectCode(grpc.status.UNIMPLEMENTED, new Promise((resolve, reject) => {
        limiter.makeUnaryRequest(path, nothing, nothing, {}, within(TIMEOUT),
          (error, response) => (error ? reject(error) : resolve(response)));
      }));
    }
  },

  async gzip() {
    const packing = connect(sluice.v1.RateLimiter, {
      'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip });
    const sent = checks(1000, 'gzip', 'g', { note: 'n'.repeat(800) });
    const { results } = await call(packing, 'CheckLimits', { checks: sent });
    assert.equal(results.length, 1000);
    const calls = new Stream(packing);
    for (let i = 0; i < 2; ++i) {
      calls.send(checks(100, 'gzip'));
      await calls.results(100);
    }
    calls.stream.end();
    await calls.expectEnd(grpc.status.OK);
    const request = check('u'.repeat(5 * MIB));
    await expectCode(grpc.status.RESOURCE_EXHAUSTED, call(packing, 'CheckLimit', request));
    packing.close();
  },

  async deadline() {
    await one(check('deadline'));
    const silent = connect(sluice.v1.RateLimiter, {}, given.silent);
    const begin = Date.now();
    await expectCode(grpc.status.DEADLINE_EXCEEDED,
      call(silent, 'CheckLimit', check('deadline'), undefined, 500));
    assert.ok(Date.now() - begin < 5000, 'late');
    silent.close();
    const calls = new Stream(limiter, 500);
    calls.send(checks(1, 'deadline'));
    await calls.results(1);
    await calls.expectEnd(grpc.status.DEADLINE_EXCEEDED);
  },

  async cancel() {
    for (let i = 0; i < 10; ++i) {
      const calls = new Stream();
      calls.send(checks(1, 'cancel'));
      await calls.results(1);
      calls.send(checks(1000, 'cancel'));
      setImmediate(() => calls.stream.cancel());
      assert.equal((await calls.status).code, grpc.status.CANCELLED);
    }
    await one(check('cancel'));
  },

  async concurrent() {
    const answers = decisions(await Promise.all(
      Array.from({ length: 64 }, () => one(check('concurrent', '/crowd')))));
    const count = (word) => answers.filter((decision) => decision === word).length;
    assert.deepEqual([count('ALLOWED'), count('DENIED')], [40, 24]);
    const streams = Array.from({ length: 64 }, () => new Stream());
    for (const calls of streams) calls.send(checks(1, 'concurrent'));
    for (const calls of streams) await calls.results(1);
    for (const calls of streams) {
      calls.stream.end();
      await calls.expectEnd(grpc.status.OK);
    }
  },

  async health_check() {
    for (const service of ['', 'sluice.v1.RateLimiter']) {
      assert.equal((await call(health, 'Check', { service })).status, 'SERVING');
    }
    await expectCode(grpc.status.NOT_FOUND, call(health, 'Check', { service: 'no.such' }));
  },

  async health_watch() {
    for (const [service, status] of [['', 'SERVING'], ['no.such', 'SERVICE_UNKNOWN']]) {
      const watch = new Receiver(health.Watch({ service }, within(TIMEOUT)));
      assert.equal((await watch.next()).status, status);
      watch.stream.cancel();
      await watch.expectEnd(grpc.status.CANCELLED);
    }
  },

  async reflection() {
    const asked = new Receiver(reflector.ServerReflectionInfo(within(TIMEOUT)));
    asked.stream.write({ list_services: '*' });
    asked.stream.write({ file_containing_symbol: 'sluice.v1.RateLimiter' });
    asked.stream.write({ file_containing_symbol: 'no.such.Symbol' });
    asked.stream.end();
    const names = (await asked.next()).list_services_response.service.map((s) => s.name);
    for (const name of ['sluice.v1.RateLimiter', 'sluice.v1.Admin', 'grpc.health.v1.Health']) {
      assert.ok(names.includes(name), `${name} is not among ${names}`);
    }
    const files = (await asked.next()).file_descriptor_response.file_descriptor_proto.map(
      (file) => descriptor.FileDescriptorProto.decode(file).name);
    assert.ok(files.includes('sluice/v1/rate_limiter.proto'), `files: ${files}`);
    assert.equal((await asked.next()).error_response.error_code, grpc.status.NOT_FOUND);
    await asked.expectEnd(grpc.status.OK);
  },

  async keepalive() {
    const options = { 'grpc.keepalive_time_ms': 10_000, 'grpc.keepalive_timeout_ms': 5_000,
      'grpc.keepalive_permit_without_calls': 1, 'grpc.use_local_subchannel_pool': 1 };
    const idle = connect(sluice.v1.RateLimiter, options);
    const busy = connect(sluice.v1.RateLimiter, options);
    await call(idle, 'CheckLimit', check('keepalive'));
    const calls = new Stream(busy, 60_000);
    calls.send(checks(1, 'keepalive'));
    await calls.results(1);
    const { READY } = grpc.connectivityState;
    assert.equal(idle.getChannel().getConnectivityState(false), READY);
    const leftReady = await new Promise((resolve) => {
      idle.getChannel().watchConnectivityState(READY, Date.now() + 35_000, (e) => resolve(!e));
    });
    assert.ok(!leftReady, 'the idle connection was lost');
    calls.send(checks(1, 'keepalive'));
    calls.stream.end();
    await calls.results(1);
    await calls.expectEnd(grpc.status.OK);
    idle.close();
    busy.close();
  },

  async reconnect() {
    const calls = new Stream();
    calls.send(checks(1, 'reconnect'));
    await calls.results(1);
    await ask('@kill');
    await calls.expectEnd(grpc.status.UNAVAILABLE);
    await expectChannelWorks('reconnect');
  },

  async graceful_stop() {
    const watch = new Receiver(health.Watch({}, within(TIMEOUT)));
    assert.equal((await watch.next()).status, 'SERVING');
    const calls = new Stream();
    calls.send(checks(1, 'graceful'));
    await calls.results(1);
    await ask('@stop');
    assert.equal((await watch.next()).status, 'NOT_SERVING');
    watch.stream.cancel();
    await calls.expectEnd(grpc.status.UNAVAILABLE);
    await expectChannelWorks('graceful');
  },
};

async function passes(name) {
  const begin = Date.now();
  try {
    await CHECKS[name]();
  } catch (error) {
    console.log(`FAIL ${name}: ${error.stack}`);
    return false;
  }
  console.log(`ok   ${name} (${Date.now() - begin} ms)`);
  return true;
}

async function main() {
  const wanted = given.only ? given.only.split(',') : Object.keys(CHECKS);
  let passed = true;
  for (const name of wanted) passed = (await passes(name)) && passed;
  // Without this call, channels that reconnect would keep Node running.
  process.exit(passed ? 0 : 1);
}

main();
