// A gateway to a language model: takes requests, tokens and money from a customer's budgets before it
// passes a request to an OpenAI-compatible endpoint, and settles what was used. See docs/llm.md.
'use strict';

const {randomUUID} = require('crypto');
const {once} = require('events');
const fs = require('fs');
const http = require('http');
const {Client, Limited} = require('sluice-client');
const YAML = require('yaml');
const {Job, eventsOf} = require('./job');
const {readPrices} = require('./prices');

const {
  LISTEN = '127.0.0.1:8000',
  UPSTREAM = 'http://127.0.0.1:8001',  // requests go to UPSTREAM/v1/chat/completions
  UPSTREAM_KEY,
  SLUICE_ADDR = '127.0.0.1:8081',
  SLUICE_TOKEN_FILE,
  DEADLINE = '1000',  // ms that a check may take
  PRICES = `${__dirname}/prices.yaml`,
  KEYS = `${__dirname}/keys.yaml`,
} = process.env;
const MAX_BODY = 10 * 1024 * 1024;  // bytes

// If Sluice does not answer, nothing is counted, so requests are refused.
const client = new Client(SLUICE_ADDR, {
  token: SLUICE_TOKEN_FILE && (() => fs.readFileSync(SLUICE_TOKEN_FILE, 'utf8').trim()),
  withoutAnswer: 'closed', deadline: Number(DEADLINE), drain: 60_000,
});
const customers = new Map(Object.entries(YAML.parse(fs.readFileSync(KEYS, 'utf8'))));
let prices = readPrices(PRICES);
fs.watchFile(PRICES, {interval: 1000}, () => {  // requests that have begun keep their prices
  try {
    prices = readPrices(PRICES);
    console.error(`gateway: new prices of ${PRICES}`);
  } catch (error) {
    console.error(`gateway: the prices stay as they were: ${error.message}`);
  }
});

function refuse(response, status, code, message, headers = {}) {
  response.writeHead(status, {'content-type': 'application/json', ...headers});
  response.end(`${JSON.stringify({error: {message, type: code, code, param: null}})}\n`);
}

// The name of the rule that denied the request.
const ruleOf = ({response}) =>
  response.limits.find((limit) => !limit.admitted && !limit.shadow)?.rule ?? 'unknown';

// The headers x-ratelimit-limit-requests, x-ratelimit-remaining-tokens, …, which end with the names of
// the rules. The rule `dollars` counts nano-dollars, but its headers are in dollars.
function limitHeaders(decision) {
  const headers = {};
  for (const limit of decision.response.limits) {
    if (limit.shadow || limit.index > 0 || !limit._limit) continue;
    const scale = limit.rule === 'dollars' ? 1e9 : 1;
    const reset = limit.reset_after?.seconds ?? 0;
    headers[`x-ratelimit-limit-${limit.rule}`] = String(limit.limit / scale);
    headers[`x-ratelimit-remaining-${limit.rule}`] = String((limit.remaining ?? 0) / scale);
    headers[`x-ratelimit-reset-${limit.rule}`] = `${reset}s`;
  }
  const retryAfter = decision.answered ? decision.headers['Retry-After'] : '1';
  return !decision.allowed && retryAfter ? {...headers, 'retry-after': retryAfter} : headers;
}

async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY) throw new RangeError(`the request has more than ${MAX_BODY} bytes`);
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString());
}

// The usage that the answer reports. Undefined if the answer reports none: in this case, the
// amounts that were taken stay charged.
function usageOf(answer) {
  try {
    return JSON.parse(answer).usage;
  } catch {
    return undefined;
  }
}

// Passes a stream through, as fast as the customer reads. When the tokens that were taken are used up,
// takes the amounts of the next part.
async function passEvents(job, upstream, response, reservation, signal) {
  for await (const event of eventsOf(upstream.body)) {
    const hidden = job.count(event);
    if (job.wantsMore) await reservation.extend(job.nextPart());
    if (!hidden && !response.write(`${event}\n\n`)) await once(response, 'drain', {signal});
  }
}

// Answers with the failure, or ends the stream with an event that reports it. Returns how the request
// ended.
function fail(job, response, error) {
  const decision = error instanceof Limited ? error.decision : undefined;
  const [code, message] = !decision ? ['upstream_error', 'the model does not answer']
    : decision.answered ? ['rate_limit_exceeded', `stopped: the limit ${ruleOf(decision)} is reached`]
      : ['no_decision', 'stopped: the limits are unknown'];
  if (response.headersSent) {
    const retryAfter = decision?.headers['Retry-After'];
    const last = {error: {message, type: code, code, param: null, retry_after: retryAfter}};
    response.end(`data: ${JSON.stringify(last)}\n\n`);
  } else {
    job.nothingUsed();
    refuse(response, 502, code, message);
  }
  return decision ? 'stopped' : `failed: ${error.message}`;
}

// Passes the request to the upstream. Returns how the request ended.
async function pass(job, id, response, reservation) {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    if (response.destroyed) gone.abort();
    const upstream = await fetch(`${UPSTREAM}/v1/chat/completions`, {
      method: 'POST', body: job.body, signal: gone.signal,
      headers: {'content-type': 'application/json', 'x-request-id': id,
        ...(UPSTREAM_KEY && {authorization: `Bearer ${UPSTREAM_KEY}`})},
    });
    const headers = {'content-type': upstream.headers.get('content-type') ?? 'application/json',
      'x-request-id': id, ...limitHeaders(reservation.decision)};
    if (upstream.ok && job.stream) {
      response.writeHead(200, headers);
      await passEvents(job, upstream, response, reservation, gone.signal);
      response.end();
    } else {
      const text = await upstream.text();
      if (upstream.ok) job.use(usageOf(text));
      else job.nothingUsed();
      response.writeHead(upstream.status, headers).end(text);
    }
    return upstream.ok ? 'completed' : `upstream ${upstream.status}`;
  } catch (error) {
    return gone.signal.aborted ? 'aborted' : fail(job, response, error);
  } finally {
    gone.abort();  // ends the upstream's answer, if it has not ended yet
  }
}

async function complete(request, response) {
  const customer = customers.get(request.headers.authorization?.replace(/^Bearer /, ''));
  if (!customer) {
    refuse(response, 401, 'invalid_api_key', 'send `Authorization: Bearer KEY` with a known key');
    return;
  }
  let job;
  try {
    job = new Job(await readBody(request), prices);
  } catch (error) {
    refuse(response, 400, 'invalid_request_error', error.message);
    return;
  }
  const id = randomUUID();
  let outcome = 'denied';
  try {
    const reservation = await client.reserve('llm', {customer, model: job.model},
      {amounts: job.firstPart()});
    try {
      outcome = await pass(job, id, response, reservation);
    } finally {
      reservation.settle(job.used());
    }
  } catch (error) {
    if (!(error instanceof Limited)) throw error;
    const {decision} = error;
    if (decision.answered) {
      refuse(response, 429, 'rate_limit_exceeded', `the limit ${ruleOf(decision)} is reached`,
        limitHeaders(decision));
    } else {
      refuse(response, 503, 'no_decision', 'the limits are unknown', limitHeaders(decision));
    }
  }
  const used = outcome === 'denied' ? {} : job.used();
  console.log(JSON.stringify({id, customer, model: job.model, outcome, ...used}));
}

const running = new Set();  // the promises of requests that have not ended

const server = http.createServer((request, response) => {
  if (request.method === 'GET' && request.url === '/healthz') {
    response.end('ok\n');
  } else if (request.method === 'POST' && request.url === '/v1/chat/completions') {
    const work = complete(request, response).catch((error) => {
      console.error('gateway:', error);
      if (!response.headersSent) refuse(response, 500, 'internal_error', 'no decision');
      else response.destroy();
    }).finally(() => running.delete(work));
    running.add(work);
  } else {
    refuse(response, 404, 'not_found', 'there is only POST /v1/chat/completions');
  }
});

const [, host, port] = LISTEN.match(/^(.*):(\d+)$/);
server.listen(Number(port), host, 4096, () => console.error(`gateway: ready ${server.address().port}`));

// Waits until all connections have ended, and then until all requests have ended: if a customer
// hangs up, the connection ends at once, but its request may end later. Last, waits until the
// settlements are stored.
process.once('SIGTERM', () => server.close(async () => {
  await Promise.all(running);
  const lost = await client.close();
  process.exit(lost > 0 ? 1 : 0);
}));
