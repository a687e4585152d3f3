// The prices of models, from a YAML file.
'use strict';

const fs = require('fs');
const YAML = require('yaml');

const NANO = 1e9;

function numberOf(values, name, place) {
  const value = values?.[name];
  if (typeof value !== 'number' || !(value >= 0)) {
    throw new TypeError(`${place}: ${name} is ${value}; it must be a number of at least 0`);
  }
  return value;
}

// Throws if the file has a mistake. Returns {part, models: Map of {input, output, maxTokens}}; prices
// are nano-dollars for a token.
function readPrices(path) {
  const file = YAML.parse(fs.readFileSync(path, 'utf8'));
  const models = new Map();
  for (const [name, values] of Object.entries(file?.models ?? {})) {
    const place = `${path}: models.${name}`;
    models.set(name, {
      input: numberOf(values, 'input', place) * NANO / 1e6,
      output: numberOf(values, 'output', place) * NANO / 1e6,
      maxTokens: numberOf(values, 'max_tokens', place),
    });
  }
  if (models.size === 0) throw new TypeError(`${path}: models is empty`);
  const part = numberOf(file, 'part', path);
  if (part < 1) throw new TypeError(`${path}: part is ${part}; it must be at least 1`);
  return {part, models};
}

module.exports = {readPrices};
