// A browser for tests in Python: reads commands from standard input, one JSON object per line, and
// answers each command with a line: {"value": …}, or {"error": text} if the command has failed.
//
//   {"open": URL, "scheme": "dark"?}  opens a new page in a new context and forgets earlier events;
//                                     the value is the HTTP status
//   {"run": "code"}                   runs an async function with this body, which may use `page`;
//                                     the value is what the function returns
//   {"events": true}                  the value is {"requests": […], "errors": […]}: the URLs that
//                                     the page has requested, and its errors and warnings
//
// The browser is Debian's Chromium. In it, the host name evil.test means 127.0.0.1.
'use strict';

const readline = require('readline');
const {chromium} = require('playwright-core');

const TIMEOUT = 60000;

async function open(browser, {open: url, scheme = 'light'}) {
  const context = await browser.newContext({colorScheme: scheme, viewport: {width: 1100, height: 800}});
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT);
  const events = {requests: [], errors: []};
  page.on('request', request => events.requests.push(request.url()));
  page.on('pageerror', error => events.errors.push(`exception: ${error.message}`));
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type())) events.errors.push(message.text());
  });
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation',
    event => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  const answer = await page.goto(url);
  return {page, events, status: answer.status()};
}

async function main() {
  const browser = await chromium.launch({
    executablePath: process.argv[2],
    chromiumSandbox: process.getuid() !== 0,
    args: ['--host-resolver-rules=MAP evil.test 127.0.0.1'],
  });
  let current = null;
  const obey = async command => {
    if (command.open) {
      if (current) await current.page.context().close();
      current = await open(browser, command);
      return {value: current.status};
    }
    if (command.events) return {value: current.events};
    const {page} = current;
    return {value: (await eval(`(async () => {${command.run}})()`)) ?? null};
  };
  console.log('ready');
  for await (const line of readline.createInterface({input: process.stdin})) {
    const answer = await obey(JSON.parse(line)).catch(error => ({error: String(error)}));
    console.log(JSON.stringify(answer));
  }
  await browser.close();
}

main();
