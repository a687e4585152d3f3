// Rate limits decided by Sluice. See README.md.
'use strict';

const {Client} = require('./lib/client');
const {Decision, Limited, NoAnswer} = require('./lib/decision');
const {limitInterceptor} = require('./lib/interceptor');
const {limitRequests} = require('./lib/requests');
const {Reservation} = require('./lib/reservation');
const {above} = require('./lib/work');

module.exports = {
  Client, Decision, Limited, NoAnswer, Reservation, above, limitInterceptor, limitRequests,
};
