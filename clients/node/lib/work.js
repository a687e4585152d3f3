// How the work under a lease of slots went. `concurrency` limits with `adapt` learn from it.
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');
const {status} = require('@grpc/grpc-js');

const OUTCOMES = {ok: 'HOLD_OUTCOME_OK', overload: 'HOLD_OUTCOME_OVERLOAD', ignore: 'HOLD_OUTCOME_IGNORE'};
const CODES = new Set([status.DEADLINE_EXCEEDED, status.RESOURCE_EXHAUSTED, status.UNAVAILABLE,
  'ETIMEDOUT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAI_AGAIN', 'EMFILE', 'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_SOCKET']);
const PERIOD = 1000;  // ms over which the CPU is measured

const isOverload = (httpStatus) => httpStatus === 429 || httpStatus >= 500;

// 'ok' if there is no error; 'overload' for a timeout, a broken or refused connection, too many
// open files, or an HTTP or gRPC status that means overload; otherwise 'ignore'.
function outcomeOf(error) {
  if (error === undefined) return 'ok';
  const says = (cause) => cause.name === 'TimeoutError' || CODES.has(cause.code)
    || [cause.status, cause.statusCode, cause.response?.status].some(isOverload);
  return [error, error?.cause].some((it) => it && says(it)) ? 'overload' : 'ignore';
}

// The error of a response; undefined if it was sent completely and its status does not mean
// overload.
const errorOfResponse = (response) => {
  if (!response.writableFinished) return new Error('the caller has gone');
  return isOverload(response.statusCode) ? response : undefined;
};

// The error of a gRPC call with this status; undefined if the status does not mean overload.
const errorOfStatus = (it) => (CODES.has(it.code) ? it : undefined);

// The work's result must not be lost because of an exception.
function holds(overloaded) {
  try {
    return overloaded();
  } catch (error) {
    process.emitWarning(`the function \`overloaded\` has failed: ${error}`, 'SluiceWarning');
    return false;
  }
}

// The work for which slots are held.
class Work {
  #outcome;
  #duration;

  // Sets how the work went: 'ok', 'overload', or 'ignore' if the work shows nothing about the load.
  // An error of the work is then ignored. duration: how many ms the work took; unless set, the
  // server measures how long the slot was held.
  report(outcome, {duration} = {}) {
    if (outcome !== undefined && !Object.hasOwn(OUTCOMES, outcome)) {
      throw new TypeError(`outcome is ${outcome}; allowed are ${Object.keys(OUTCOMES).join(', ')}`);
    }
    if (duration !== undefined) this.#duration = durationOf('duration', duration);
    this.#outcome = outcome ?? this.#outcome;
  }

  // How the work went, as fields of a release or settlement. overloaded() returns whether this
  // process is overloaded. If it throws an exception, the process counts as not overloaded.
  ended(error, overloaded) {
    const outcome = this.#outcome
      ?? (error === undefined && holds(overloaded) ? 'overload' : outcomeOf(error));
    return {hold_outcome: OUTCOMES[outcome], duration: this.#duration};
  }
}

// Throws unless each amount is one that the API takes. Others would count as 0.
function checkAmounts(amounts) {
  for (const [name, value] of Object.entries(amounts)) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new TypeError(`${name} is ${value}; it must be an integer of at least 0`);
    }
  }
  return amounts;
}

// Milliseconds as a Duration message of the API.
function durationOf(name, milliseconds) {
  if (!(milliseconds >= 0 && milliseconds < Infinity)) {
    throw new TypeError(`${name} is ${milliseconds}; it must be milliseconds`);
  }
  const nanos = Math.round(milliseconds * 1e6);
  return {seconds: Math.floor(nanos / 1e9), nanos: nanos % 1e9};
}

// The words of a file, or [] if it cannot be read.
function words(folder, name) {
  try {
    return fs.readFileSync(path.join(folder, name), 'ascii').trim().split(/\s+/);
  } catch {
    return [];
  }
}

function ownCgroup() {
  const own = words('/proc/self', 'cgroup').find((line) => line.startsWith('0::')) ?? '0::/';
  return path.join('/sys/fs/cgroup', own.slice(3));
}

// A function for the option `overloaded`, such as above({cpu: 0.9, memory: 0.85}). It returns
// whether the cgroup (v2) of this process uses more than the given part of its CPU or of its
// memory. If the cgroup has no limit, the machine's CPU or memory is the limit. Without cgroups,
// only the use of this process counts. CPU is measured over at least a second. `cgroup`: the folder
// of a cgroup to measure in place of this process's own.
function above({cpu = Infinity, memory = Infinity, cgroup = ownCgroup()}) {
  const cpuTime = () => {  // ms
    const [, used] = words(cgroup, 'cpu.stat');  // usage_usec N …
    const {user, system} = process.cpuUsage();
    return (used === undefined ? user + system : Number(used)) / 1000;
  };
  const cpus = () => {
    const [quota = 'max', period] = words(cgroup, 'cpu.max');
    return quota === 'max' ? os.cpus().length : quota / period;
  };
  const memoryPart = () => {
    const [used = process.memoryUsage.rss()] = words(cgroup, 'memory.current');
    const [most = 'max'] = words(cgroup, 'memory.max');
    return used / (most === 'max' ? os.totalmem() : most);
  };
  let [time, used, part] = [performance.now(), cpuTime(), 0];
  return () => {
    const now = performance.now();
    if (now - time >= PERIOD) {
      const after = cpuTime();
      [part, time, used] = [(after - used) / (now - time) / cpus(), now, after];
    }
    return part > cpu || (memory < Infinity && memoryPart() > memory);
  };
}

module.exports = {Work, above, checkAmounts, durationOf, errorOfResponse, errorOfStatus};
