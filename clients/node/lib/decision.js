// The result of a check, and its HTTP status and headers.
'use strict';

const {Work} = require('./work');

// Milliseconds, rounded up, so that waiting this long is always enough.
const millis = (duration) =>
  duration ? duration.seconds * 1000 + Math.ceil(duration.nanos / 1e6) : 0;

// Node runs a longer timer at once.
const LONGEST_TIMER = 2 ** 31 - 1;

// A timer takes at least a millisecond, so none is started for a wait of 0.
async function sleep(milliseconds) {
  for (let left = milliseconds; left > 0; left -= LONGEST_TIMER) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(left, LONGEST_TIMER)));
  }
}

class Decision extends Work {
  constructor(allowed, response, failure) {
    super();
    this.allowed = allowed;
    this.failure = failure;  // why no server decided; undefined if a server answered
    this.answered = failure === undefined;
    this.response = response || {limits: []};
    this.wait = millis(this.response.wait);  // ms before the allowed request starts
    // ms until a retry can succeed; undefined: never, or unknown
    this.retryAfter = this.response.retry_after ? millis(this.response.retry_after) : undefined;
    this.decidedAt = this.response.decided_at;  // `chargedAt` of a refund
  }

  // The HTTP status of the answer to a request that was not allowed.
  get httpStatus() {
    return this.answered ? 429 : 503;
  }

  // Retry-After of a denial, and the headers of draft-ietf-httpapi-ratelimit-headers.
  get headers() {
    const headers = {};
    const shown = this.response.limits.filter((limit) => !limit.shadow && limit._limit);
    if (shown.length > 0) {
      headers['RateLimit-Policy'] =
        shown.map((limit) => `${nameOf(limit)};q=${limit.limit}`).join(', ');
      headers.RateLimit = shown.map((limit) =>
        `${nameOf(limit)};r=${limit.remaining || 0};t=${Math.ceil(millis(limit.reset_after) / 1000)}`)
        .join(', ');
    }
    if (this.retryAfter !== undefined) {
      headers['Retry-After'] = String(Math.max(1, Math.ceil(this.retryAfter / 1000)));
    }
    return headers;
  }
}

// The request was denied.
class Limited extends Error {
  constructor(decision) {
    super(decision.answered ? 'rate limited' : `no server answered: ${decision.failure}`);
    this.name = this.constructor.name;
    this.decision = decision;
    this.retryAfter = decision.retryAfter;
  }
}

// No server answered, and the client denied the request because it is 'closed'.
class NoAnswer extends Limited {}

const denial = (decision) => (decision.answered ? new Limited(decision) : new NoAnswer(decision));

// The rule's name as an RFC 8941 string, which is ASCII. If the limit is not the rule's first, "/"
// and the limit's index follow the name.
function nameOf(limit) {
  const rule = limit.rule.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&');
  return limit.index ? `"${rule}/${limit.index}"` : `"${rule}"`;
}

module.exports = {Decision, LONGEST_TIMER, Limited, NoAnswer, denial, millis, sleep};
