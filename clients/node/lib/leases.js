// The leases of a client: renews open leases, and releases or settles them in the background.
'use strict';

const {LONGEST_TIMER, millis, sleep} = require('./decision');

const CALL_TIMEOUT = 5000;  // ms, including the time that a call waits for a connection
const FIRST_PAUSE = 100;  // ms between attempts; doubled up to LAST_PAUSE
const LAST_PAUSE = 1000;

// Whether the outcome is final, so that no further attempt is needed. After QUEUED, the settlement
// is repeated, since the server that queued it may die. It is also repeated after NOT_FOUND if the
// lease was taken during an outage: such a lease is not found until its server reaches the store.
const isFinal = (outcome, local) =>
  outcome !== 'OUTCOME_QUEUED' && !(local && outcome === 'OUTCOME_NOT_FOUND');

class Leases {
  #call;
  #isMistake;
  #options;
  #calls = new Set();  // promises of releases and settlements that have not ended
  #settling = 0;
  #lost = 0;
  #closed = false;

  // call(method, request, timeout) returns a promise of the answer. isMistake(error) returns
  // whether a call that failed with this error would fail again.
  constructor(call, isMistake, {maxSettlements, settleFor}) {
    this.#call = call;
    this.#isMistake = isMistake;
    this.#options = {maxSettlements, settleFor};
  }

  // Renews a lease until the returned function is called.
  renew({id, ttl}) {
    const third = Math.min(Math.max(1, millis(ttl) / 3), LONGEST_TIMER);
    const renewing = setInterval(() => {
      this.#call('RenewLease', {lease_id: id}, third).catch(() => {});
    }, third);
    renewing.unref();
    return () => clearInterval(renewing);
  }

  // Releases a lease. The release is repeated for at most CALL_TIMEOUT; if it fails, the slot is
  // free after the ttl. `hold` has the fields that Work.ended returns.
  release(id, hold) {
    if (this.#closed) return;
    this.#track(this.#repeat('ReleaseLease', {lease_id: id, ...hold}, CALL_TIMEOUT));
  }

  // Starts the settlement, which is repeated in the background until it is stored. `local`: whether
  // the lease was granted while the store did not answer.
  settle({id, local}, {cost, ...amounts}, hold) {
    if (this.#closed || this.#settling >= this.#options.maxSettlements) {
      this.#report(this.#closed ? 'the client is closed' : `${this.#settling} others are waiting`);
      return;
    }
    this.#settling += 1;
    const request = {lease_id: id, cost, amounts, ...hold};
    this.#track(this.#repeat('SettleLease', request, this.#options.settleFor, local).then((failure) => {
      this.#settling -= 1;
      if (failure) this.#report(failure);
    }));
  }

  // Waits for releases and settlements, for at most `drain` ms. Returns how many settlements are
  // lost in all.
  async close(drain) {
    let timer;
    const end = new Promise((resolve) => {
      timer = setTimeout(resolve, Math.min(drain, LONGEST_TIMER));
    });
    await Promise.race([Promise.all(this.#calls), end]);
    clearTimeout(timer);
    this.#closed = true;
    return this.#lost + this.#settling;
  }

  #track(promise) {
    const call = promise.then(() => this.#calls.delete(call));
    this.#calls.add(call);
  }

  // Repeats the release or settlement until it has succeeded or the client gives up. Returns
  // undefined if it has succeeded, otherwise the reason why not.
  async #repeat(method, request, lasting, local = false) {
    const end = Date.now() + lasting;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LAST_PAUSE)) {
      let failure = 'the store does not answer';
      try {
        const timeout = Math.min(CALL_TIMEOUT, Math.max(end - Date.now(), FIRST_PAUSE));
        const {outcome} = await this.#call(method, request, timeout);
        if (isFinal(outcome, local)) return undefined;
      } catch (error) {
        failure = error.message;
        if (this.#isMistake(error)) return failure;
      }
      if (this.#closed || Date.now() + pause > end) return failure;
      await sleep(pause * (0.5 + Math.random() / 2));
    }
  }

  #report(why) {
    this.#lost += 1;
    process.emitWarning(`a settlement is lost, its lease stays charged as taken: ${why}`,
      'SluiceWarning');
  }
}

module.exports = {Leases};
