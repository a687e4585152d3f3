// Rate limits decided by Sluice. See README.md.
'use strict';

const {Client} = require('./lib/client');
const {Decision, Limited, NoAnswer} = require('./lib/decision');
const {limitInterceptor} = require('./lib/interceptor');
const {limitRequests} = require('./lib/requests');

module.exports = {Client, Decision, Limited, NoAnswer, limitInterceptor, limitRequests};
