// One request to a model: the amounts to take for it, and the amounts that it has used until now.
'use strict';

const MAX_EVENT = 1024 * 1024;  // characters

// Not every upstream reports both numbers of tokens.
const tokensOf = (value, otherwise) =>
  (Number.isSafeInteger(value) && value >= 0 ? value : otherwise);

// The data of a server-sent event. An event may have other fields, too (`event:`, `id:`).
const dataOf = (event) => event.split(/\r?\n/).filter((line) => line.startsWith('data:'))
  .map((line) => line.slice(5).trimStart()).join('\n');

class Job {
  #price;
  #part;
  #maxOutput;
  #taken = 0;  // output tokens
  #input;  // tokens: an estimate until the upstream reports the number
  #output = 0;
  #known;  // whether #output is known: always for a stream, otherwise once the upstream reports it
  #hidesUsage = false;

  // `request` is the parsed body, as the customer sent it. Throws if it has a mistake.
  constructor(request, {part, models}) {
    this.#price = models.get(request.model);
    if (!this.#price) {
      throw new TypeError(`model is ${request.model}; known are ${[...models.keys()].join(', ')}`);
    }
    const most = request.max_completion_tokens ?? request.max_tokens ?? this.#price.maxTokens;
    const n = request.n ?? 1;
    for (const [name, value] of Object.entries({max_tokens: most, n})) {
      if (!Number.isSafeInteger(value) || value < 1) {
        throw new TypeError(`${name} is ${value}; it must be an integer of at least 1`);
      }
    }
    const stream = request.stream ?? false;
    if (typeof stream !== 'boolean') throw new TypeError(`stream is ${stream}; it must be true or false`);
    this.model = request.model;
    this.stream = stream;
    this.#known = this.stream;
    if (this.stream) {  // makes the upstream report the usage in a last event
      this.#hidesUsage = !request.stream_options?.include_usage;
      request = {...request, stream_options: {...request.stream_options, include_usage: true}};
    }
    // The upstream must not answer with more than #maxOutput, so a request without a maximum gets one.
    if (!(request.max_completion_tokens ?? request.max_tokens)) request = {...request, max_tokens: most};
    this.body = JSON.stringify(request);
    this.#input = Math.ceil(Buffer.byteLength(this.body) / 4);
    this.#maxOutput = most * n;
    this.#part = this.stream ? part : this.#maxOutput;
  }

  // The amounts to take before the request is passed on.
  firstPart() {
    return this.#amounts(this.#input, this.#next());
  }

  // The amounts to take for the next part of a stream.
  nextPart() {
    return this.#amounts(0, this.#next());
  }

  get wantsMore() {
    return this.#output > this.#taken;
  }

  used() {
    return this.#amounts(this.#input, this.#known ? this.#output : this.#taken);
  }

  // The upstream's count replaces the estimate.
  use(usage) {
    if (!usage) return;
    this.#known = true;
    this.#input = tokensOf(usage.prompt_tokens, this.#input);
    this.#output = tokensOf(usage.completion_tokens, this.#output);
  }

  nothingUsed() {
    this.#known = true;
    this.#input = 0;
    this.#output = 0;
  }

  // Counts an event of the stream: one token for each choice, until the upstream reports what was used.
  // Returns whether the event must be hidden, because the customer did not ask for it.
  count(event) {
    const data = dataOf(event);
    if (!data.startsWith('{')) return false;  // [DONE], or a comment
    const chunk = JSON.parse(data);
    this.#output += chunk.choices?.length ?? 0;
    this.use(chunk.usage);
    return this.#hidesUsage && chunk.choices?.length === 0;
  }

  #next() {
    const left = this.#maxOutput - this.#taken;
    const next = left > 0 ? Math.min(this.#part, left) : this.#part;
    this.#taken += next;
    return next;
  }

  #amounts(input, output) {
    const money = input * this.#price.input + output * this.#price.output;
    return {input_tokens: input, output_tokens: output, nano_dollars: Math.ceil(money)};
  }
}

// The server-sent events of a body, without the empty line that ends each.
async function* eventsOf(body) {
  let text = '';
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    text += part;
    const events = text.split(/\r?\n\r?\n/);
    text = events.pop();
    if (text.length > MAX_EVENT) throw new RangeError(`an event has more than ${MAX_EVENT} characters`);
    yield* events;
  }
}

module.exports = {Job, eventsOf};
