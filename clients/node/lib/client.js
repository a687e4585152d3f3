// The client: one channel, a deadline for every check, and a decision even if no server answers.
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const {Decision, denial, sleep} = require('./decision');
const {Leases} = require('./leases');
const {Reservation} = require('./reservation');
const {checkAmounts, durationOf} = require('./work');

const {sluice} = grpc.loadPackageDefinition(loader.loadSync('sluice/v1/rate_limiter.proto', {
  includeDirs: [path.join(__dirname, '../proto')], keepCase: true, enums: String, longs: Number,
  oneofs: true, defaults: true,
}));
const {RateLimiter} = sluice.v1;

const SERVICE_CONFIG = JSON.stringify({
  loadBalancingConfig: [{round_robin: {}}],
  // A check is never sent twice, since it may have been counted. Calls that end or renew a lease
  // are idempotent, so gRPC repeats them.
  methodConfig: [{
    name: ['RenewLease', 'ReleaseLease', 'SettleLease'].map((method) => (
      {service: 'sluice.v1.RateLimiter', method})),
    waitForReady: true,
    retryPolicy: {
      maxAttempts: 5, initialBackoff: '0.1s', maxBackoff: '1s', backoffMultiplier: 2,
      retryableStatusCodes: ['UNAVAILABLE'],
    },
  }],
});

const MODES = {
  consume: 'MODE_CONSUME', peek: 'MODE_PEEK', charge: 'MODE_CHARGE', refund: 'MODE_REFUND',
};

// How each field of a check is written to the request. Domain and attributes are not among them.
const FIELDS = {
  cost: (cost) => checkAmounts({cost}),
  amounts: (amounts) => ({amounts: checkAmounts(amounts ?? {})}),
  mode: (mode) => ({mode: oneOf('mode', mode, MODES)}),
  maxWait: (ms) => ({max_wait: durationOf('maxWait', ms)}),
  maxDelay: (ms) => ({max_delay: durationOf('maxDelay', ms)}),
  chargedAt: (timestamp) => ({charged_at: timestamp}),
  requestId: (id) => ({request_id: id}),
  leaseTtl: (ms) => ({lease_ttl: durationOf('leaseTtl', ms)}),
};

// Errors of the caller, which are thrown. After any other error, the client decides.
const MISTAKES = new Set([grpc.status.INVALID_ARGUMENT, grpc.status.PERMISSION_DENIED,
  grpc.status.UNAUTHENTICATED, grpc.status.UNIMPLEMENTED]);

function oneOf(name, value, allowed) {
  if (Object.hasOwn(allowed, value)) return allowed[value];
  throw new TypeError(`${name} is ${value}; allowed are ${Object.keys(allowed).join(', ')}`);
}

// The object without its undefined values.
const given = (object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

const fieldsOf = (options) => Object.assign({}, ...Object.entries(given(options)).map(
  ([name, value]) => oneOf('an option', name, FIELDS)(value)));

const credentialsOf = (tls) => {
  if (!tls) return grpc.credentials.createInsecure();
  const {ca, key, cert} = tls === true ? {} : tls;
  return grpc.credentials.createSsl(ca || null, key || null, cert || null);
};

// Reads and writes a message once in advance, because the code for this is generated when it is
// first used.
function loadMessages() {
  const {requestSerialize, responseSerialize, responseDeserialize} = RateLimiter.service.CheckLimit;
  requestSerialize({domain: 'd', attributes: {a: ''}});
  responseDeserialize(responseSerialize({limits: [{rule: ''}], lease: {id: ''}, decided_at: {}}));
}

// Runs `work`, then calls `end`, with the error of `work` if it has failed.
async function ending(end, work) {
  let failure;
  try {
    return await work();
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    end(failure);
  }
}

// One client, which has one channel, is enough for a process. index.d.ts describes the options.
class Client {
  #stub;
  #token;
  #deadline;
  #open;
  #defaults;
  #connecting;
  #leases;
  #leaseTtl;
  #drain;
  #closed = false;
  #overloaded;

  constructor(address = '127.0.0.1:8081', {
    token, tls, deadline = 100, withoutAnswer = 'open', maxWait, connectTimeout = 2000,
    leaseTtl = 60_000, settleFor = 600_000, maxSettlements = 10_000, drain = 5000,
    overloaded = () => false, ...unknown
  } = {}) {
    if (Object.keys(unknown).length > 0) {
      throw new TypeError(`a client has no option ${Object.keys(unknown).join(', ')}`);
    }
    this.#token = token;
    this.#deadline = deadline;
    this.#open = oneOf('withoutAnswer', withoutAnswer, {open: true, closed: false});
    this.#defaults = {maxWait};
    fieldsOf({maxWait, leaseTtl});  // throws if a value is invalid
    this.#leaseTtl = leaseTtl;
    this.#drain = drain;
    this.#overloaded = overloaded;
    this.#leases = new Leases(
      async (method, request, timeout) => this.#call(method, request, this.#metadata(), timeout),
      (error) => MISTAKES.has(error.code), {maxSettlements, settleFor});
    this.#stub = new RateLimiter(address, credentialsOf(tls), {
      'grpc.enable_http_proxy': 0,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1000,
      // A server that hangs is noticed, even if the client makes no calls.
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 2000,
      'grpc.keepalive_permit_without_calls': 1,
      'grpc.service_config': SERVICE_CONFIG,
    });
    // Until this time, checks wait for the connection and for a first call, which takes longer than
    // later calls.
    const end = Date.now() + connectTimeout;
    loadMessages();
    this.#connecting = new Promise((resolve) => {
      this.#stub.waitForReady(end, () => this.#stub.makeUnaryRequest(
        '/grpc.health.v1.Health/Check', (bytes) => bytes, (bytes) => bytes, Buffer.alloc(0),
        {deadline: end}, resolve));
    });
  }

  // Waits until settlements are stored and releases are answered, for at most `drain` ms. Returns
  // how many settlements are lost in all. Later checks are decided as if no server answered.
  async close() {
    const lost = await this.#leases.close(this.#drain);
    this.#closed = true;
    this.#stub.close();
    return lost;
  }

  // Asks whether a request is allowed. Attributes that are undefined or null are left out. Rejects
  // if the request is invalid or the caller may not make it.
  async check(domain, attributes, options = {}) {
    const defaults = options.maxDelay === undefined ? this.#defaults : {};
    const present = Object.entries(attributes).filter(([, value]) => value != null);
    const request = {
      domain, attributes: Object.fromEntries(present),
      ...fieldsOf({...defaults, ...given(options)}),
    };
    await this.#connecting;
    if (this.#closed) return new Decision(this.#open, undefined, 'the client is closed');
    const metadata = this.#metadata();  // its exception is not a missing answer
    try {
      const response = await this.#call('CheckLimit', request, metadata, this.#deadline);
      return new Decision(response.decision === 'DECISION_ALLOWED', response);
    } catch (error) {
      if (MISTAKES.has(error.code)) throw error;
      RateLimiter.service.CheckLimit.requestSerialize(request);  // throws if invalid
      return new Decision(this.#open, undefined, error.message);
    }
  }

  // Runs `work` if the request is allowed, otherwise throws Limited. If the answer has a wait,
  // sleeps first. A slot of a concurrency limit is held while `work` runs, and always released
  // afterward.
  async limited(domain, attributes, work, options = {}) {
    const decision = await this.check(domain, attributes, options);
    if (!decision.allowed) throw denial(decision);
    return ending(this.hold(decision), async () => {
      await sleep(decision.wait);
      return work(decision);
    });
  }

  // Takes units of all limits under a lease, which is renewed. If the request is allowed, runs
  // `work(reservation)`. When the work ends, even if it fails, the reservation is settled with what
  // `reservation.use` reported. Without `work`, returns the reservation, which the caller settles.
  // If the request is denied, throws Limited.
  async reserve(domain, attributes, work, options) {
    if (typeof work !== 'function') return this.#reserve(domain, attributes, work);
    const reservation = await this.#reserve(domain, attributes, options);
    return ending((error) => reservation.settle({}, error), () => work(reservation));
  }

  async #reserve(domain, attributes, {cost, amounts, ...options} = {}) {
    const take = async ({cost, ...amounts}) => {
      const decision = await this.check(domain, attributes,
        {leaseTtl: this.#leaseTtl, ...given(options), cost, amounts});
      if (!decision.allowed) throw denial(decision);
      return decision;
    };
    const reservation = new Reservation(take, this.#leases, this.#overloaded);
    await reservation.begin({...amounts, ...(cost === undefined ? {} : {cost})});
    return reservation;
  }

  // Renews the decision's lease, if it has one. Returns a function that stops the renewal and
  // releases the lease. If the work failed, pass the error to the function. A second call of the
  // function does nothing.
  hold(decision) {
    const {lease} = decision.response;
    if (!lease) return () => {};
    const stop = this.#leases.renew(lease);
    let held = true;
    return (error) => {
      if (!held) return;
      held = false;
      stop();
      this.#leases.release(lease.id, decision.ended(error, this.#overloaded));
    };
  }

  #metadata() {
    const metadata = new grpc.Metadata();
    const token = typeof this.#token === 'function' ? this.#token() : this.#token;
    if (token) metadata.set('authorization', `Bearer ${token}`);
    return metadata;
  }

  #call(method, request, metadata, timeout) {
    return new Promise((resolve, reject) => {
      this.#stub[method](request, metadata, {deadline: Date.now() + timeout},
        (error, response) => (error ? reject(error) : resolve(response)));
    });
  }
}

module.exports = {Client};
