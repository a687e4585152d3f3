// Limits the requests of an HTTP server by rules.
'use strict';

const {sleep} = require('./decision');
const {errorOfResponse} = require('./work');

// The path, with the path at which the middleware is mounted. For a request of the mount point
// itself, Express says that the path below it is "/".
function pathOf({baseUrl = '', originalUrl, url, path = url.split('?')[0]}) {
  const isMountPoint = baseUrl && path === '/' && !originalUrl.split('?')[0].endsWith('/');
  return isMountPoint ? baseUrl : baseUrl + path;
}

// Express: app.use(limitRequests(client, 'shop')). Each request is checked with the attributes
// `endpoint` (the path), `method` and `client_ip`, and with those that `attributes(request)`
// returns. A denied request gets 429, and Retry-After if a retry can succeed. If no server answers
// and the client's `withoutAnswer` is 'closed', a request gets 503. If limits were checked, the
// response has RateLimit and RateLimit-Policy. The application finds the decision in
// `request.sluice`.
function limitRequests(client, domain, attributes = () => ({}), options = {}) {
  return async (request, response, next) => {
    try {
      const decision = await client.check(domain, {
        endpoint: pathOf(request),
        method: request.method,
        client_ip: request.ip ?? request.socket.remoteAddress,
        ...attributes(request),
      }, options);
      for (const [name, value] of Object.entries(decision.headers)) response.setHeader(name, value);
      if (!decision.allowed) {
        response.statusCode = decision.httpStatus;
        response.end(decision.answered ? 'too many requests\n' : 'no decision\n');
        return;
      }
      const release = client.hold(decision);
      request.sluice = decision;
      const end = () => release(errorOfResponse(response));
      response.once('close', end);
      if (!response.destroyed) await sleep(decision.wait);
      if (response.destroyed) end();  // the response may already be closed
      else next();
    } catch (error) {
      next(error);
    }
  };
}

module.exports = {limitRequests};
