// The leases of a client: renews open leases, and releases or settles them in the background.
'use strict';

const {millis} = require('./decision');

const CALL_TIMEOUT = 5000;  // ms, including the time that a call waits for a connection
const FIRST_PAUSE = 100;  // ms between attempts to settle; doubled up to LAST_PAUSE
const LAST_PAUSE = 1000;
const LONGEST_TIMER = 2 ** 31 - 1;

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

  // Releases a lease. If the answer never arrives, the slot is free after the ttl. `hold` has the
  // fields that Work.ended returns.
  release(id, hold) {
    this.#track(this.#call('ReleaseLease', {lease_id: id, ...hold}, CALL_TIMEOUT).catch(() => {}));
  }

  // Starts the settlement, which is repeated in the background until it is stored. `local`: whether
  // the lease was granted while the store did not answer.
  settle({id, local}, {cost, ...amounts}, hold) {
    if (this.#settling >= this.#options.maxSettlements) {
      this.#report(`${this.#settling} others are waiting`);
      return;
    }
    this.#settling += 1;
    this.#track(this.#store({lease_id: id, cost, amounts, ...hold}, local).then((failure) => {
      this.#settling -= 1;
      if (failure) this.#report(failure);
    }));
  }

  // Waits for releases and settlements, for at most `drain` ms. Returns how many settlements are
  // lost in all.
  async close(drain) {
    let timer;
    const end = new Promise((resolve) => {
      timer = setTimeout(resolve, drain);
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

  // Repeats the settlement until it is stored or the client gives up. Returns undefined if the
  // settlement is stored, otherwise the reason why not.
  async #store(request, local) {
    const end = Date.now() + this.#options.settleFor;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LAST_PAUSE)) {
      let failure = 'the store does not answer';
      try {
        const {outcome} = await this.#call('SettleLease', request, CALL_TIMEOUT);
        if (isFinal(outcome, local)) return undefined;
      } catch (error) {
        failure = error.message;
        if (this.#isMistake(error)) return failure;
      }
      if (this.#closed || Date.now() + pause > end) return failure;
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
    }
  }

  #report(why) {
    this.#lost += 1;
    process.emitWarning(`a settlement is lost, its lease stays charged as taken: ${why}`,
      'SluiceWarning');
  }
}

module.exports = {Leases};
