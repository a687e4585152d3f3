// Limits the methods of a gRPC server by rules, without changing them.
'use strict';

const grpc = require('@grpc/grpc-js');
const {sleep} = require('./decision');
const {errorOfStatus} = require('./work');

// new grpc.Server({interceptors: [limitInterceptor(client, 'shop')]}). Each call is checked with
// the attribute `endpoint` (the call's full method) and with the attributes that
// `attributes(metadata)` returns. A denied call ends with RESOURCE_EXHAUSTED; if a retry can
// succeed, `grpc-retry-pushback-ms` says when. If no server answers and the client is 'closed', the
// call ends with UNAVAILABLE.
function limitInterceptor(client, domain, attributes = () => ({}), options = {}) {
  return (method, call) => {
    let release = () => {};
    let ended = false;
    let failure;
    const end = (error) => {
      ended = true;
      failure = error;
      release(error);
    };
    const refuse = (code, details, retryAfter) => {
      const metadata = new grpc.Metadata();
      if (retryAfter !== undefined) metadata.set('grpc-retry-pushback-ms', String(retryAfter));
      call.sendStatus({code, details, metadata});
    };
    const decide = async (metadata, pass) => {
      const facts = {...attributes(metadata), endpoint: method.path};
      const decision = await client.check(domain, facts, options);
      if (!decision.allowed) {
        if (!decision.answered) refuse(grpc.status.UNAVAILABLE, 'no decision');
        else refuse(grpc.status.RESOURCE_EXHAUSTED, 'rate limited', decision.retryAfter);
        return;
      }
      release = client.hold(decision);
      if (!ended) await sleep(decision.wait);
      if (ended) release(failure);
      else pass(metadata);
    };
    return new grpc.ServerInterceptingCall(call, {
      start: (next) => next({
        onReceiveMetadata: (metadata, pass) => {
          decide(metadata, pass).catch(() => refuse(grpc.status.INTERNAL, 'no decision'));
        },
        onCancel: () => end(new Error('the caller has gone')),
      }),
      sendStatus: (status, next) => {
        end(errorOfStatus(status));
        next(status);
      },
    });
  };
}

module.exports = {limitInterceptor};
