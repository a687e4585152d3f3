// Units taken under a lease, to be settled with what was used.
'use strict';

const {sleep} = require('./decision');
const {Work, checkAmounts} = require('./work');

class Reservation extends Work {
  #take;
  #leases;
  #parts = [];  // in the order in which they were taken: {id, local, held, stop}
  #used = {};
  #open = true;
  #overloaded;

  // take(amounts) returns a promise of the decision. A denial rejects the promise with Limited.
  constructor(take, leases, overloaded) {
    super();
    this.#take = take;
    this.#leases = leases;
    this.#overloaded = overloaded;
  }

  // Takes the first part. The client calls this.
  async begin(amounts) {
    const defaults = {cost: 1, requests: amounts.cost === 0 ? 0 : 1};  // the API's defaults
    await this.#add(await this.#take(amounts), {...defaults, ...amounts});
  }

  // Sets what has been used until now, in total: {tokens: 212}. Amounts that are never named are
  // settled as taken. `cost` is also a name that can be set.
  use(amounts) {
    Object.assign(this.#used, checkAmounts(amounts));
  }

  // Takes more units for the next part of the work, under a further lease. Does not count as a
  // request, and takes no slot unless `cost` is named. Rejects with Limited if the units are
  // denied, and with Error if the reservation is settled.
  async extend(amounts) {
    this.#mustBeOpen();
    const held = {cost: 0, ...(amounts.cost ? {requests: 0} : {}), ...amounts};
    await this.#add(await this.#take(held), held);
  }

  // Ends the reservation with what was used, in the background. `error`: the error of the work, if
  // it failed. Settling again does nothing.
  settle(amounts = {}, error = undefined) {
    if (!this.#open) return;
    this.#open = false;
    try {
      this.use(amounts);
    } finally {  // even if an amount is invalid, the leases must end
      const shares = split(this.#parts.map(({held}) => held), this.#used);
      const hold = this.ended(error, this.#overloaded);
      this.#parts.forEach((part, index) => this.#end(part, shares[index], hold));
    }
  }

  // For `using`.
  [Symbol.dispose ?? Symbol.for('dispose')]() {
    this.settle();
  }

  // For `await using`. Does not wait until the settlement is stored: `client.close()` waits for
  // that.
  async [Symbol.asyncDispose ?? Symbol.for('asyncDispose')]() {
    this.settle();
  }

  // Without a lease there is nothing to settle: no rule counts the request, or no server answered.
  async #add(decision, held) {
    this.decision = decision;
    const {lease} = decision.response;
    if (lease) {
      const local = decision.response.source === 'SOURCE_FALLBACK';
      const part = {id: lease.id, local, held, stop: this.#leases.renew(lease)};
      if (this.#open) this.#parts.push(part);
      else this.#end(part, Object.fromEntries(Object.keys(held).map((name) => [name, 0])));
    }
    this.#mustBeOpen();  // it may have been settled during the check
    await sleep(decision.wait);
  }

  #mustBeOpen() {
    if (!this.#open) throw new Error('the reservation is settled');
  }

  #end(part, used, hold) {
    part.stop();
    this.#leases.settle(part, used, hold);
  }
}

// Distributes the used units over the parts. Each part gets at most the units that it held, and the
// last part gets the rest.
function split(parts, used) {
  const left = {...used};
  return parts.map((held, index) => {
    const share = {};
    for (const name of Object.keys(left)) {
      const last = index === parts.length - 1;
      share[name] = last ? left[name] : Math.min(left[name], held[name] ?? 0);
      left[name] -= share[name];
    }
    return share;
  });
}

module.exports = {Reservation};
