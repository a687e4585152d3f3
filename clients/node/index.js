// Rate limits decided by Sluice. See README.md.
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTOS = process.env.SLUICE_PROTO_PATH || path.join(__dirname, '../../proto');
const {sluice} = grpc.loadPackageDefinition(loader.loadSync('sluice/v1/rate_limiter.proto', {
  includeDirs: [PROTOS], keepCase: true, enums: String, longs: Number, oneofs: true,
  defaults: true,
}));

const MODES = sluice.v1.Mode.type.value.map(({name}) => name);

// Mistakes of the caller. Other errors mean that there is no decision.
const MISTAKES = new Set([grpc.status.INVALID_ARGUMENT, grpc.status.PERMISSION_DENIED,
  grpc.status.UNAUTHENTICATED, grpc.status.UNIMPLEMENTED]);

// Milliseconds, rounded up, so that waiting this long is always enough.
const millis = (duration) =>
  duration ? duration.seconds * 1000 + Math.ceil(duration.nanos / 1e6) : 0;

const duration = (milliseconds) => ({
  seconds: Math.floor(milliseconds / 1000), nanos: Math.round((milliseconds % 1000) * 1e6),
});

// A timer takes at least a millisecond, so none is started for a wait of 0.
const sleep = (milliseconds) =>
  milliseconds > 0 ? new Promise((resolve) => setTimeout(resolve, milliseconds)) : undefined;

// The result of a check.
class Decision {
  constructor(allowed, response) {
    this.allowed = allowed;
    this.answered = response !== undefined;  // false: the client decided, because no server answered
    this.response = response || {limits: []};
    this.wait = millis(this.response.wait);  // ms before the allowed request starts
    // ms until a retry can succeed; undefined: never, or unknown
    this.retryAfter = this.response.retry_after ? millis(this.response.retry_after) : undefined;
  }
}

// The request was denied.
class Limited extends Error {
  constructor(decision) {
    super('rate limited');
    this.decision = decision;
    this.retryAfter = decision.retryAfter;
  }
}

// Asks one address: "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081". It has one
// channel; one client is enough for a process.
class Client {
  // deadline: ms that a check may take. withoutAnswer: 'open' (allow) or 'closed' (deny), if no server
  // answers in time. maxWait: the longest wait in ms that a check accepts.
  constructor(address, {deadline = 100, withoutAnswer = 'open', maxWait, credentials} = {}) {
    if (withoutAnswer !== 'open' && withoutAnswer !== 'closed') {
      throw new TypeError(`withoutAnswer is ${withoutAnswer}; allowed are 'open' and 'closed'`);
    }
    this.deadline = deadline;
    this.open = withoutAnswer === 'open';
    this.defaults = maxWait === undefined ? {} : {max_wait: duration(maxWait)};
    this.releases = new Set();  // pending calls
    this.stub = new sluice.v1.RateLimiter(address, credentials || grpc.credentials.createInsecure(), {
      'grpc.enable_http_proxy': 0,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1000,
      'grpc.service_config': '{"loadBalancingConfig": [{"round_robin": {}}]}',
    });
  }

  // Waits until the server has answered pending releases, for at most 5 s.
  async close() {
    await Promise.all(this.releases);
    this.stub.close();
  }

  // Asks whether a request is allowed. Undefined attributes are left out. `more`: cost, mode, max_wait.
  // Rejects only if the request is invalid.
  async check(domain, attributes, more = {}) {
    if (more.mode !== undefined && !MODES.includes(more.mode)) {
      throw new TypeError(`mode is ${more.mode}; allowed are ${MODES.join(', ')}`);
    }
    const present = Object.entries(attributes).filter(([, value]) => value !== undefined);
    const request = {
      domain, attributes: Object.fromEntries(present), ...this.defaults, ...more,
    };
    try {
      const response = await this.#call('CheckLimit', request, this.deadline);
      return new Decision(response.decision === 'DECISION_ALLOWED', response);
    } catch (error) {
      if (MISTAKES.has(error.code)) throw error;
      sluice.v1.RateLimiter.service.CheckLimit.requestSerialize(request);  // throws if it was never sent
      return new Decision(this.open);
    }
  }

  // Runs `work` if the request is allowed, else throws Limited. If the answer has a wait, sleeps first. A
  // slot of a concurrency limit is held while `work` runs, and always released afterwards.
  async limited(domain, attributes, work, more = {}) {
    const decision = await this.check(domain, attributes, more);
    if (!decision.allowed) throw new Limited(decision);
    const release = this.hold(decision);
    try {
      await sleep(decision.wait);
      return await work();
    } finally {
      release();
    }
  }

  // Renews the decision's lease, if it has one, until the returned function is called, which releases it.
  // That function may be called more than once.
  hold(decision) {
    const {lease} = decision.response;
    if (!lease) return () => {};
    const third = Math.min(Math.max(1, millis(lease.ttl) / 3), 2 ** 31 - 1);  // the maximum of a timer
    const renewing = setInterval(() => {
      this.#call('RenewLease', {lease_id: lease.id}, third).catch(() => {});
    }, third);
    renewing.unref();
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      clearInterval(renewing);
      // Not waited for: if the answer never arrives, the slot is free after the ttl.
      const released = this.#call('ReleaseLease', {lease_id: lease.id}, 5000).catch(() => {})
        .then(() => this.releases.delete(released));
      this.releases.add(released);
    };
  }

  #call(method, request, timeout) {
    return new Promise((resolve, reject) => {
      this.stub[method](request, {deadline: Date.now() + timeout},
        (error, response) => (error ? reject(error) : resolve(response)));
    });
  }
}

// Limits the methods of a gRPC server by rules, without changing them: new grpc.Server({interceptors:
// [limitInterceptor(client, 'shop')]}). Each call is checked with the attribute `endpoint`, its full
// method, and what `attributes(metadata)` returns. A denied call ends with RESOURCE_EXHAUSTED; if a retry
// can succeed, `grpc-retry-pushback-ms` says when.
function limitInterceptor(client, domain, attributes = () => ({})) {
  return (method, call) => {
    let release = () => {};
    let ended = false;
    const end = () => {
      ended = true;
      release();
    };
    const refuse = (code, details, retryAfter) => {
      const metadata = new grpc.Metadata();
      if (retryAfter !== undefined) metadata.set('grpc-retry-pushback-ms', String(retryAfter));
      call.sendStatus({code, details, metadata});
    };
    const decide = async (metadata, pass) => {
      const facts = {...attributes(metadata), endpoint: method.path};
      const decision = await client.check(domain, facts);
      if (!decision.allowed) {
        refuse(grpc.status.RESOURCE_EXHAUSTED, 'rate limited', decision.retryAfter);
        return;
      }
      release = client.hold(decision);
      if (!ended) await sleep(decision.wait);
      if (ended) release();
      else pass(metadata);
    };
    return new grpc.ServerInterceptingCall(call, {
      start: (next) => next({
        onReceiveMetadata: (metadata, pass) => {
          decide(metadata, pass).catch(() => refuse(grpc.status.INTERNAL, 'no decision'));
        },
        onCancel: end,
      }),
      sendStatus: (status, next) => {
        end();
        next(status);
      },
    });
  };
}

// Limits the requests of an Express application: app.use(limitRequests(client, 'shop')).
// Each is checked with the attributes `endpoint` (the path), `method`, `client_ip` and what
// `attributes(request)` returns. A denied one is answered with 429 and Retry-After; every response has
// RateLimit and RateLimit-Policy.
function limitRequests(client, domain, attributes = () => ({})) {
  return async (request, response, next) => {
    try {
      const decision = await client.check(domain, {
        endpoint: request.path, method: request.method, client_ip: request.ip,
        ...attributes(request),
      });
      setHeaders(response, decision);
      if (!decision.allowed) {
        response.statusCode = 429;
        response.end('too many requests\n');
        return;
      }
      const release = client.hold(decision);
      response.once('close', release);
      if (!response.destroyed) await sleep(decision.wait);
      if (response.destroyed) release();  // it was closed before, perhaps
      else next();
    } catch (error) {
      next(error);
    }
  };
}

// The headers of draft-ietf-httpapi-ratelimit-headers.
function setHeaders(response, decision) {
  const shown = decision.response.limits.filter((limit) => !limit.shadow && limit._limit);
  if (shown.length > 0) {
    response.setHeader('RateLimit-Policy',
      shown.map((limit) => `${nameOf(limit)};q=${limit.limit}`).join(', '));
    response.setHeader('RateLimit', shown.map((limit) =>
      `${nameOf(limit)};r=${limit.remaining || 0};t=${Math.ceil(millis(limit.reset_after) / 1000)}`)
      .join(', '));
  }
  if (decision.retryAfter !== undefined) {
    response.setHeader('Retry-After', Math.max(1, Math.ceil(decision.retryAfter / 1000)));
  }
}

// A string of RFC 8941, which is ASCII; later limits of a rule get their index.
function nameOf(limit) {
  const rule = limit.rule.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&');
  return limit.index ? `"${rule}/${limit.index}"` : `"${rule}"`;
}

module.exports = {Client, Decision, Limited, limitInterceptor, limitRequests};
