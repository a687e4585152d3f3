// Validates Kubernetes objects against the API's schema: the schema's validator checks values, and
// TypeScript checks that no field is unknown.
//
// Usage: node validate.mjs [--self-test] FILE.yaml...
// If there are faults, prints a line for each and exits with status 1. --self-test first plants
// faults in a copy, and checks that each is found.
import {execFileSync} from 'node:child_process';
import {readFileSync, rmSync, writeFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import yaml from 'js-yaml';

const folder = fileURLToPath(new URL('.', import.meta.url));

function load(file) {
  return yaml.loadAll(readFileSync(file, 'utf8')).map((object) => ({file, object}));
}

async function wrongValues({file, object}) {
  const name = `${file}: ${object.kind}`;
  try {
    const models = await import(`kubernetes-models/${object.apiVersion}`);
    new models[object.kind](object).validate();
    return [];
  } catch (error) {
    return [`${name}: ${error.message}`];
  }
}

// Compiles a TypeScript file with a typed literal for each object, and returns the compiler's
// errors. The compiler refuses unknown fields.
function unknownFields(objects) {
  const source = `${folder}objects.ts`;
  const lines = objects.map(({object: {apiVersion, kind, ...fields}}, i) =>
    `import {I${kind} as Kind${i}} from 'kubernetes-models/${apiVersion}';\n` +
    `export const object${i}: Omit<Kind${i}, 'apiVersion' | 'kind'> = ${JSON.stringify(fields)};\n`);
  writeFileSync(source, lines.join(''));
  try {
    execFileSync(process.execPath, [`${folder}node_modules/typescript/bin/tsc`, '--noEmit', '--strict',
      '--skipLibCheck', '--module', 'nodenext', '--moduleResolution', 'nodenext', source]);
    return [];
  } catch (error) {
    return String(error.stdout).trim().split('\n');
  } finally {
    rmSync(source);
  }
}

async function faults(objects) {
  const values = await Promise.all(objects.map(wrongValues));
  return [...values.flat(), ...unknownFields(objects)];
}

const PLANTED = [
  ['livenesProbe', (object) => { object.spec.template.spec.containers[0].livenesProbe = {}; }],
  ['replicas', (object) => { object.spec.replicas = 'three'; }],
  ['selector', (object) => { delete object.spec.selector; }],
  ['mountpath', (object) => {
    object.spec.template.spec.containers[0].volumeMounts[0] = {name: 'run', mountpath: '/run'};
  }],
];

async function selfTest(objects) {
  const deployment = objects.find(({object}) => object.kind === 'Deployment');
  for (const [expected, plant] of PLANTED) {
    const copy = structuredClone(deployment);
    plant(copy.object);
    const found = await faults([copy]);
    if (!found.some((line) => line.includes(expected))) {
      throw new Error(`the planted fault ${expected} was not found: ${found}`);
    }
  }
}

const files = process.argv.slice(2).filter((argument) => argument !== '--self-test');
const objects = files.flatMap(load);
if (process.argv.includes('--self-test')) await selfTest(objects);
const found = await faults(objects);
for (const line of found) console.error(line);
if (objects.length === 0 || found.length > 0) process.exit(1);
console.log(`ok: ${objects.length} objects are valid`);
