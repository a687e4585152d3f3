// A control plane for tests, run by control_plane.py: serves rules by aggregated discovery (ADS),
// with gRPC for Node.
//
//   node control_plane.js PROTO_DIRECTORY NODE_MODULES ADDRESS [CA CERTIFICATE KEY]
//
// Each line of standard input is a command in JSON: {"send": {version, resources}},
// {"large": {version, domains, descriptors}}, or {"end": true}, which ends all streams. The first
// line of standard output is "listening PORT". Each further line is a client's request, in JSON.
'use strict';

const fs = require('fs');
const path = require('path');
const readline = require('readline');
const [protos, modules, address, ca, certificate, key] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));
const grpc = load('@grpc/grpc-js');
const loader = load('@grpc/proto-loader');
const protobuf = load('protobufjs');

const TYPE = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

const api = grpc.loadPackageDefinition(
  loader.loadSync('envoy/service/discovery/v3/ads.proto', {includeDirs: [protos], keepCase: true, defaults: true}));
const service = api.envoy.service.discovery.v3.AggregatedDiscoveryService.service;

const root = new protobuf.Root();
root.resolvePath = (origin, target) =>
  target.startsWith('google/protobuf/') ? null : path.join(protos, target);
root.loadSync('ratelimit/config/ratelimit/v3/rls_conf.proto', {keepCase: true});
const Config = root.lookupType('ratelimit.config.ratelimit.v3.RateLimitConfig');

const streams = new Set();
let nonce = 0;

function stream(call) {
  streams.add(call);
  call.on('data', (request) => console.log(JSON.stringify({
    node: request.node && request.node.id,
    version: request.version_info,
    nonce: request.response_nonce,
    error: request.error_detail && request.error_detail.message,
    code: request.error_detail && request.error_detail.code,
  })));
  const gone = () => streams.delete(call);
  call.on('end', () => { gone(); call.end(); });
  call.on('error', gone);
}

function send({version, resources}) {
  const response = {
    version_info: version,
    type_url: TYPE,
    nonce: `nonce-${++nonce}`,
    resources: resources.map((it) => ({type_url: TYPE, value: Config.encode(Config.fromObject(it)).finish()})),
  };
  for (const call of streams) call.write(response);
}

// Makes `domains` resources with `descriptors` rules each, and sends them.
function sendLarge({version, domains, descriptors}) {
  const resources = Array.from({length: domains}, (_, i) => ({
    name: `large/${i}`,
    domain: `domain-${i}`,
    descriptors: Array.from({length: descriptors}, (_, j) => ({
      key: 'user',
      value: `user-${j}`,
      rate_limit: {unit: 'MINUTE', requests_per_unit: j + 1},
    })),
  }));
  send({version, resources});
}

const credentials = ca === undefined
  ? grpc.ServerCredentials.createInsecure()
  : grpc.ServerCredentials.createSsl(fs.readFileSync(ca),
      [{private_key: fs.readFileSync(key), cert_chain: fs.readFileSync(certificate)}], true);
const server = new grpc.Server({'grpc.max_send_message_length': -1});
server.addService(service, {StreamAggregatedResources: stream});
server.bindAsync(address, credentials, (error, port) => {
  if (error) throw error;
  console.log(`listening ${port}`);
});

readline.createInterface({input: process.stdin}).on('line', (line) => {
  const command = JSON.parse(line);
  if (command.send) send(command.send);
  if (command.large) sendLarge(command.large);
  if (command.end) for (const call of streams) call.end();
}).on('close', () => process.exit(0));
