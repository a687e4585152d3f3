// Tests what only the Node client promises, against a server that answers as each test tells it.
'use strict';

const assert = require('assert');
const {EventEmitter, once} = require('events');
const path = require('path');
const test = require('node:test');
const express = require('express');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const {Client, limitInterceptor, limitRequests} = require('sluice-client');
const {sleep} = require('sluice-client/lib/decision');

const SOON = 300_000;  // ms; long, because the machine may be busy
const folder = path.join(path.dirname(require.resolve('sluice-client')), 'proto');
const {sluice} = grpc.loadPackageDefinition(loader.loadSync('sluice/v1/rate_limiter.proto', {
  includeDirs: [folder], keepCase: true, enums: String, longs: Number,
}));

const bind = (server) => new Promise((resolve, reject) => {
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(),
    (error, port) => (error ? reject(error) : resolve(`127.0.0.1:${port}`)));
});

// Grants each check a lease. Emits an event for each call: its method and its request. Fails with
// the next code of `codes[method]`. `beforeAnswer` is a promise that each answer to a check awaits.
class Server extends EventEmitter {
  codes = {};
  beforeAnswer = undefined;
  #clients = [];

  static async start(t, ttl = {seconds: 600}) {
    const answers = {
      CheckLimit: {decision: 'DECISION_ALLOWED', lease: {id: 'lease', ttl}},
      RenewLease: {}, ReleaseLease: {}, SettleLease: {outcome: 'OUTCOME_SETTLED'},
    };
    const it = new Server();
    const server = new grpc.Server();
    server.addService(sluice.v1.RateLimiter.service, Object.fromEntries(
      Object.entries(answers).map(([method, answer]) => [method, async ({request}, reply) => {
        it.emit(method, request);
        if (method === 'CheckLimit') await it.beforeAnswer;
        const code = it.codes[method]?.shift();
        reply(code ? {code} : null, answer);
      }])));
    it.address = await bind(server);
    t.after(async () => {
      await Promise.all(it.#clients.map((client) => client.close()));
      server.forceShutdown();
    });
    return it;
  }

  client(options = {}) {
    const client = new Client(this.address, {deadline: SOON, drain: SOON, ...options});
    this.#clients.push(client);
    return client;
  }

  async calls(method, count) {
    for (let left = count; left > 0; --left) await once(this, method);
  }
}

// A function for the option `token`, which can fail.
function makeToken() {
  const token = () => {
    if (token.failures > 0) {
      token.failures -= 1;
      throw new Error('the file is being replaced');
    }
    return 'token';
  };
  token.failures = 0;
  return token;
}

const warning = async () => (await once(process, 'warning'))[0].message;

test('a failure of the token during a check reaches the caller', async (t) => {
  const token = makeToken();
  const client = (await Server.start(t)).client({token});
  token.failures = 1;
  await assert.rejects(client.check('shop', {}), /the file is being replaced/);
});

test('leases are renewed, released and settled after a failure of the token', async (t) => {
  const token = makeToken();
  const server = await Server.start(t, {nanos: 3e8});
  const client = server.client({token});
  await client.limited('shop', {}, async () => {
    token.failures = 1;
    await server.calls('RenewLease', 1);
    assert.equal(token.failures, 0);
    token.failures = 1;
  });
  await server.calls('ReleaseLease', 1);
  await client.reserve('shop', {}, () => {
    token.failures = 1;
  });
  await server.calls('SettleLease', 1);
  assert.equal(await client.close(), 0);
});

test('leases are renewed and released after UNAVAILABLE', async (t) => {
  const {UNAVAILABLE} = grpc.status;
  const server = await Server.start(t, {nanos: 3e8});
  // gRPC repeats a call four times.
  server.codes = {RenewLease: Array(3).fill(UNAVAILABLE), ReleaseLease: Array(6).fill(UNAVAILABLE)};
  const released = server.calls('ReleaseLease', 7);
  await server.client().limited('shop', {}, () => server.calls('RenewLease', 4));
  await released;
});

test('a failure of overloaded does not change the result of the work', async (t) => {
  const server = await Server.start(t);
  const overloaded = () => {
    throw new Error('no cgroup');
  };
  const warned = warning();
  const released = once(server, 'ReleaseLease');
  const result = await server.client({overloaded}).limited('shop', {}, () => 'result');
  assert.equal(result, 'result');
  assert.match(await warned, /no cgroup/);
  assert.equal((await released)[0].hold_outcome, 'HOLD_OUTCOME_OK');
});

test('a cost and amounts that would count as 0 are errors', async (t) => {
  const client = (await Server.start(t)).client();
  for (const value of [NaN, -1, 1.5, '3', null, Infinity, 2 ** 60]) {
    for (const mode of ['consume', 'charge', 'refund']) {
      await assert.rejects(client.check('shop', {}, {mode, cost: value}),
        {name: 'TypeError', message: `cost is ${value}; it must be an integer of at least 0`});
      await assert.rejects(client.check('shop', {}, {mode, amounts: {tokens: value}}),
        {name: 'TypeError', message: `tokens is ${value}; it must be an integer of at least 0`});
    }
    await assert.rejects(client.reserve('shop', {}, {cost: value}), /^TypeError: cost is /);
    await assert.rejects(client.reserve('shop', {}, {amounts: {tokens: value}}), /^TypeError: tokens is /);
    await client.reserve('shop', {}, async (reservation) => {
      await assert.rejects(reservation.extend({tokens: value}), /^TypeError: tokens is /);
    });
  }
  await assert.rejects(client.check('shop', {}, {amounts: {tokens: undefined}}), /tokens is undefined/);
});

test('attributes that are null or undefined are left out', async (t) => {
  const server = await Server.start(t);
  const asked = once(server, 'CheckLimit');
  await server.client().check('shop', {user: null, region: undefined, method: 'GET'});
  assert.deepEqual({...(await asked)[0].attributes}, {method: 'GET'});
});

test('an undefined option leaves the default of the client', async (t) => {
  const server = await Server.start(t);
  const client = server.client({maxWait: 5000, leaseTtl: 7000});
  const asked = once(server, 'CheckLimit');
  await client.reserve('shop', {}, {maxWait: undefined, leaseTtl: undefined});
  const [{max_wait: maxWait, lease_ttl: leaseTtl}] = await asked;
  assert.deepEqual([maxWait.seconds, leaseTtl.seconds], [5, 7]);
});

test('the endpoint of a mounted middleware is the whole path', async (t) => {
  const server = await Server.start(t);
  const client = server.client();
  const app = express();
  app.use('/admin', limitRequests(client, 'shop'), (request, response) => response.end());
  const http = app.listen(0, '127.0.0.1');
  t.after(() => http.close() && http.closeAllConnections());
  await once(http, 'listening');
  for (const [url, endpoint] of [['/admin/export?a=/', '/admin/export'], ['/admin?a=/', '/admin'],
    ['/admin/', '/admin/']]) {
    const asked = once(server, 'CheckLimit');
    await fetch(`http://127.0.0.1:${http.address().port}${url}`);
    assert.equal((await asked)[0].attributes.endpoint, endpoint);
  }
});

test('a call that is canceled before its decision reports IGNORE', async (t) => {
  const server = await Server.start(t);
  let answer;
  server.beforeAnswer = new Promise((resolve) => {
    answer = resolve;
  });
  const limit = limitInterceptor(server.client(), 'shop');
  const canceled = new EventEmitter();
  const limited = new grpc.Server({interceptors: [limit, (_, call) => new grpc.ServerInterceptingCall(call, {
    start: (next) => next({onCancel: () => canceled.emit('seen')}),
  })]});
  limited.addService(sluice.v1.RateLimiter.service, {});
  const caller = new sluice.v1.RateLimiter(await bind(limited), grpc.credentials.createInsecure());
  t.after(() => {
    caller.close();
    limited.forceShutdown();
  });
  const asked = once(server, 'CheckLimit');
  const call = caller.checkLimit({}, () => {});
  await asked;
  const seen = once(canceled, 'seen');
  call.cancel();
  await seen;
  const released = once(server, 'ReleaseLease');
  answer();
  assert.equal((await released)[0].hold_outcome, 'HOLD_OUTCOME_IGNORE');
});

test('a wait may be longer than the longest timer of Node', async (t) => {
  const waits = [];
  t.mock.method(global, 'setTimeout', (wake, milliseconds) => {
    waits.push(milliseconds);
    setImmediate(wake);
  });
  await sleep(60 * 86_400_000);
  assert.ok(Math.max(...waits) < 2 ** 31);
  assert.equal(waits.reduce((sum, wait) => sum + wait), 60 * 86_400_000);
});

test('work may outlive its client', async (t) => {
  const server = await Server.start(t);
  const first = server.client();
  assert.equal(await first.limited('shop', {}, async () => {
    await first.close();
    return 'result';
  }), 'result');
  const second = server.client();
  const warned = warning();
  await second.reserve('shop', {}, async () => assert.equal(await second.close(), 0));
  assert.match(await warned, /the client is closed/);
  assert.equal(await second.close(), 1);
});

test('a check of a closed client has no answer', async (t) => {
  const server = await Server.start(t);
  for (const [withoutAnswer, allowed] of [['open', true], ['closed', false]]) {
    const client = server.client({withoutAnswer});
    await client.close();
    const decision = await client.check('shop', {});
    assert.deepEqual([decision.allowed, decision.failure], [allowed, 'the client is closed']);
  }
});
