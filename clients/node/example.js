// A shop whose methods, HTTP requests and gRPC calls are limited. See README.md.
//
//   example.js pay ADDRESS USER...            pays once for each user
//   example.js first ADDRESS                  checks once, with the default options
//   example.js crowd ADDRESS CALLERS CALLS    pays CALLS times per caller; prints how many are allowed
//   example.js queue ADDRESS CALLS            makes CALLS calls in sequence; prints the time in ms
//   example.js modes ADDRESS                  charges 5 units, gives 2 back; prints what is left
//   example.js ask ADDRESS open|closed        checks once for each line of standard input
//   example.js export ADDRESS                 holds a slot until standard input ends
//   example.js reserve ADDRESS USER           works three times: takes estimated tokens, and
//                                             settles with those used
//   example.js settle ADDRESS USER DRAIN SETTLE_FOR MAX
//                                             takes tokens, and settles with those used after a
//                                             line of standard input; DRAIN, SETTLE_FOR in ms
//   example.js outcomes ADDRESS               works eight times, and reports how the work went
//   example.js serve ADDRESS                  serves HTTP and gRPC until standard input ends
'use strict';

const assert = require('assert');
const readline = require('readline');
const express = require('express');
const grpc = require('@grpc/grpc-js');
const {Client, Limited, NoAnswer, above, limitInterceptor, limitRequests} = require('sluice-client');

const DEADLINE = 60_000;  // ms; long, because an example must work on a busy machine

const inputEnds = () => new Promise((resolve) => process.stdin.on('end', resolve).resume());

async function pay(address, ...users) {
  const client = new Client(address, {deadline: DEADLINE});
  for (const user of users) {
    try {
      await client.limited('shop', {endpoint: '/pay', user}, () => console.log(`${user} has paid`));
    } catch (error) {
      if (!(error instanceof Limited)) throw error;
      console.log(`${user} is denied, retry in ${Math.floor(error.retryAfter / 1000)} s`);
    }
  }
}

const describe = (decision) =>
  `${decision.allowed ? 'allowed' : 'denied'} ${decision.answered ? 'by Sluice' : 'without an answer'}`;

async function first(address) {
  const client = new Client(address);
  console.log(describe(await client.check('shop', {endpoint: '/browse'})));
}

async function crowd(address, callers, calls) {
  const client = new Client(address, {deadline: DEADLINE});
  let allowed = 0;
  const payForOne = async () => {
    for (let i = 0; i < calls; ++i) {
      const decision = await client.check('shop', {endpoint: '/pay', user: 'crowd'});
      if (decision.allowed) allowed += 1;
    }
  };
  await Promise.all(Array.from({length: callers}, payForOne));
  console.log(allowed);
}

async function queue(address, calls) {
  const client = new Client(address, {deadline: DEADLINE});
  const start = performance.now();
  for (let i = 0; i < calls; ++i) {
    await client.limited('shop', {endpoint: '/queue'}, () => {}, {maxWait: 60_000});
  }
  console.log(Math.floor(performance.now() - start));
}

async function modes(address) {
  const client = new Client(address, {deadline: DEADLINE});
  const facts = {endpoint: '/tokens'};
  const charged = await client.check('shop', facts, {mode: 'charge', cost: 3, amounts: {tokens: 2}});
  await client.check('shop', facts, {mode: 'refund', cost: 2, chargedAt: charged.decidedAt});
  const peeked = await client.check('shop', facts, {mode: 'peek'});
  console.log(peeked.response.limits[0].remaining);
}

async function ask(address, withoutAnswer) {
  const client = new Client(address, {deadline: 1000, withoutAnswer});
  for await (const _ of readline.createInterface({input: process.stdin})) {
    try {
      await client.limited('shop', {endpoint: '/browse'}, (decision) => console.log(describe(decision)));
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      console.log(describe(error.decision));
    }
  }
}

async function holdExport(address) {
  const client = new Client(address, {deadline: DEADLINE});
  try {
    await client.limited('shop', {endpoint: '/export'}, async () => {
      console.log('held');
      await inputEnds();
      throw new Error('the work fails');
    });
  } catch (error) {
    console.log(error instanceof Limited ? 'denied' : 'released');
  } finally {
    await client.close();
  }
}

// The model's answer needs more tokens than were taken.
async function longer(client, facts) {
  await client.reserve('shop', facts, async (reservation) => {
    reservation.use({tokens: 400});
    await reservation.extend({tokens: 300});
    reservation.use({tokens: 450});
  }, {amounts: {tokens: 400}});
}

async function aborted(client, facts) {
  try {
    await client.reserve('shop', facts, (reservation) => {
      reservation.use({tokens: 50});
      throw new Error('the work fails');
    }, {amounts: {tokens: 100}});
  } catch (error) {
    if (error instanceof Limited) throw error;
  }
}

// Takes all tokens that are left, so a further part is denied. A settled reservation cannot be
// extended.
async function stopped(client, facts) {
  const reservation = await client.reserve('shop', facts, {amounts: {tokens: 500}});
  try {
    await reservation.extend({tokens: 1});
  } catch (error) {
    if (!(error instanceof Limited)) throw error;
    console.log('denied');
  } finally {
    reservation.settle({tokens: 20});
  }
  await assert.rejects(reservation.extend({tokens: 1}), {message: 'the reservation is settled'});
}

async function reserve(address, user) {
  for (const prompt of [longer, aborted, stopped]) {
    const client = new Client(address, {deadline: DEADLINE, drain: DEADLINE});
    await prompt(client, {endpoint: '/model', user});
    await client.close();
  }
}

async function settle(address, user, ...bounds) {
  const [drain, settleFor, maxSettlements] = bounds.map(Number);
  const client = new Client(address,
    {deadline: DEADLINE, leaseTtl: 6000, drain, settleFor, maxSettlements});
  const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();
  const reservation = await client.reserve('shop', {endpoint: '/model', user}, {amounts: {tokens: 300}});
  await reservation.extend({tokens: 100});
  console.log('held');
  await lines.next();
  reservation.settle({tokens: 100});
  console.log('settled');
  console.log(`${await client.close()} lost`);
}

async function outcomes(address) {
  const facts = {endpoint: '/database'};
  const client = new Client(address, {deadline: DEADLINE, drain: DEADLINE});
  const refused = new TypeError('fetch failed', {cause: Object.assign(new Error(), {code: 'ECONNREFUSED'})});
  for (const error of [undefined, new DOMException('', 'TimeoutError'), refused, new RangeError()]) {
    const work = () => {
      if (error) throw error;
    };
    await client.limited('shop', facts, work).catch((failure) => {
      if (failure !== error) throw failure;
    });
  }
  await client.limited('shop', facts, (decision) => decision.report('overload'));
  await client.limited('shop', facts, (decision) => {
    decision.report(undefined, {duration: 60_000});
    decision.report('ok');
  });
  await client.reserve('shop', facts, (reservation) => reservation.report('ignore'));
  await client.close();
  const busy = new Client(address, {deadline: DEADLINE, drain: DEADLINE, overloaded: above({memory: 0})});
  await busy.limited('shop', facts, () => {});
  await busy.close();
  console.log('done');
}

async function serve(address) {
  const client = new Client(address, {deadline: DEADLINE, withoutAnswer: 'closed'});
  const app = express();
  app.use(limitRequests(client, 'shop'));
  app.use((request, response) => response.end('welcome\n'));
  const http = await new Promise((resolve) => {
    const listening = app.listen(0, '127.0.0.1', () => resolve(listening));
  });

  const byUser = (metadata) => ({user: String(metadata.get('user')[0])});
  const server = new grpc.Server({interceptors: [limitInterceptor(client, 'shop', byUser)]});
  const bytes = (value) => value;
  const method = (path, responseStream) => ({
    path, requestStream: false, responseStream,
    requestSerialize: bytes, requestDeserialize: bytes,
    responseSerialize: bytes, responseDeserialize: bytes,
  });
  const serving = Buffer.from([8, 1]);
  server.addService({
    Check: method('/grpc.health.v1.Health/Check', false),
    Watch: method('/grpc.health.v1.Health/Watch', true),
  }, {
    Check: (call, answer) => answer(null, serving),
    Watch: (call) => {
      call.write(serving);
      call.end();
    },
  });
  const port = await new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(),
      (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  console.log(`http=${http.address().port} grpc=${port}`);
  await inputEnds();
  process.exit();
}

const commands = {pay, first, crowd, queue, modes, ask, export: holdExport, reserve, settle, outcomes, serve};
const [, , command, ...given] = process.argv;
if (!(command in commands) || given.length === 0) {
  console.error('usage: example.js pay|first|crowd|queue|modes|ask|export|reserve|settle|outcomes|serve ADDRESS [ARGUMENT...]');
  process.exit(2);
}
commands[command](...given);
