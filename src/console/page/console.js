// The page of `sluice console`. Once a second, it asks the console for the servers' state and shows it.
//
// Names and keys come from callers of the servers, so the page never inserts text as HTML.
'use strict';

const SECONDS_SHOWN = 300;
const MOST_LINES = 6;
const SOURCES = ['store', 'grant', 'deny_cache', 'fallback', 'rule'];
const COLORS = ['#2b7bba', '#d97706', '#2f9e5b', '#c2410c', '#7c5cc4', '#0e9aa7'];

const byId = id => document.getElementById(id);
const form = byId('request');
const session = {
  history: [],        // the states of the last SECONDS_SHOWN seconds: {at, state}
  rules: [],          // as ListRules returns them
  explained: null,    // the last request that was explained, and its answer
  paused: false,
};

// ── The console's own API ──────────────────────────────────────────────────────────────────────

// The token is in the fragment of the URL, which browsers do not send.
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    sessionStorage.setItem('token', token);
    history.replaceState(null, '', location.pathname);
  }
}

async function call(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {'Authorization': `Bearer ${sessionStorage.getItem('token') ?? ''}`},
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(30000),
  });
  if (answer.status === 401) throw new Error('open the URL that sluice console has printed');
  const json = await answer.json();
  if (json.error && json.error.message) throw new Error(`${json.error.code}: ${json.error.message}`);
  return json;
}

const ofServer = path => `${path}?server=${form.elements.server.value || 0}`;

// ── Text and elements ──────────────────────────────────────────────────────────────────────────

const rate = value => value === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1);

function duration(us) {
  if (us === null) return '–';
  return us < 1000 ? `${us.toFixed(0)} µs` : us < 1e6 ? `${(us / 1000).toFixed(2)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function setText(node, text, className) {
  if (node.textContent !== text) node.textContent = text;
  if (className !== undefined && node.className !== className) node.className = className;
}

// Shows `items` as the rows of `body`. A row that remains keeps its element, so that it also keeps
// the focus and its open <details>.
function showRows(body, items, keyOf, makeRow, updateRow) {
  const focused = document.activeElement;
  const old = new Map([...body.children].map(row => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const key = keyOf(item);
    let row = old.get(key);
    if (!row) {
      row = makeRow(item);
      row.dataset.key = key;
    }
    old.delete(key);
    row.item = item;
    updateRow(row, item);
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
  for (const row of old.values()) row.remove();
  if (focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true});
}

const cells = (...classes) => element('tr', {}, ...classes.map(className => element('td', {className})));

function showError(id, error) {
  byId(id).hidden = !error;
  setText(byId(id), error ? error.message : '');
}

const shown = text => text.toLowerCase().includes(byId('filter').value.toLowerCase());

const nameOf = rule => `${rule.domain || '(unknown domain)'}/${rule.rule || '(no rule)'}`;

// ── Live ───────────────────────────────────────────────────────────────────────────────────────

function showTotals(state) {
  const up = state.servers.filter(server => server.answers).length;
  const totals = [
    ['Servers', `${up} of ${state.servers.length}`, up < state.servers.length],
    ['Checks/s', rate(state.checks_per_second)],
    ['Denied/s', rate(state.denied_per_second)],
    ['Checks, p50', duration(state.check_latency.p50_us)],
    ['Checks, p99', duration(state.check_latency.p99_us)],
    ['Store, p99', duration(state.store_latency.p99_us)],
  ];
  showRows(byId('totals'), totals, total => total[0],
    total => element('div', {}, element('dt', {textContent: total[0]}), element('dd')),
    (row, [, text, bad]) => setText(row.lastChild, text, bad ? 'bad' : ''));
}

function storeText(store) {
  if (store.kind !== 'redis') return 'embedded';
  const parts = [`Redis ${store.ready} of ${store.connections}`];
  if (store.breakers_open > 0) parts.push('breaker open');
  if (store.waiting > 0) parts.push(`${store.waiting} waiting`);
  if (store.failures > 0) parts.push(`${store.failures} failed`);
  return parts.join(', ');
}

function showServers(servers) {
  showRows(byId('server-rows'), servers, server => server.name,
    () => cells('', '', 'number', 'number', 'number', '', ''),
    (row, server) => {
      const bad = server.store.breakers_open > 0 || server.store.failures > 0;
      const texts = !server.answers
        ? [server.name, server.error ? `down: ${server.error}` : 'no answer yet', '', '', '', '', '']
        : [server.name, 'up', rate(server.checks_per_second), rate(server.denied_per_second),
           duration(server.check_latency.p99_us), storeText(server.store),
           server.fleet_servers > 0 ? `of ${server.fleet_servers}` : ''];
      texts.forEach((text, i) => setText(row.cells[i], text));
      row.cells[1].className = server.answers ? 'good' : 'bad';
      row.cells[5].className = bad ? 'bad' : '';
    });
}

function showRules(state) {
  const live = new Map(state.rules.map(rule => [nameOf(rule), rule]));
  const idle = {allowed_per_second: 0, denied_per_second: 0, sources: {}};
  const defined = session.rules.map(rule => ({...rule, live: live.get(nameOf(rule)) ?? idle}));
  const names = new Set(session.rules.map(nameOf));
  const others = state.rules.filter(rule => !names.has(nameOf(rule))).map(rule => ({...rule, live: rule}));
  showRows(byId('rule-rows'), [...defined, ...others].filter(rule => shown(nameOf(rule))), nameOf,
    () => {
      const row = cells('', '', 'number', 'number', ...SOURCES.map(() => 'number'));
      row.cells[0].append(element('details', {}, element('summary'), element('pre')));
      return row;
    },
    (row, rule) => {
      const [summary, text] = row.cells[0].firstChild.children;
      setText(summary, nameOf(rule) + (rule.live.shadow ? ' (shadow)' : ''));
      setText(text, rule.yaml ?? 'Not a rule in the files: checks that no rule decided.');
      setText(row.cells[1], rule.location ?? '');
      setText(row.cells[2], rate(rule.live.allowed_per_second));
      setText(row.cells[3], rate(rule.live.denied_per_second), rule.live.denied_per_second > 0 ? 'number bad' : 'number');
      SOURCES.forEach((source, i) => {
        const by = rule.live.sources[source];
        setText(row.cells[4 + i], by ? rate(by.allowed_per_second + by.denied_per_second) : '');
      });
    });
}

function showKeys(state) {
  const which = document.querySelector('input[name=keys]:checked').value;
  const subject = key => key.key === null ? `#${key.digest.slice(0, 12)}` : key.subject || '(all requests)';
  const keys = state[which].filter(key => shown(`${nameOf(key)} ${subject(key)}`)).slice(0, 100);
  showRows(byId('key-rows'), keys, key => which + key.digest,
    key => {
      const row = cells('key', '', 'number', 'number', 'actions');
      const hint = key.key === null ? 'The server does not show keys: set show_keys: true' : '';
      row.cells[4].append(
        element('button', {type: 'button', textContent: 'Explain', disabled: !!hint, title: hint,
          onclick: () => explainKey(row.item)}), ' ',
        element('button', {type: 'button', textContent: 'Reset…', disabled: !!hint, title: hint,
          onclick: () => resetKey(row.item)}));
      return row;
    },
    (row, key) => {
      setText(row.cells[0], subject(key));
      setText(row.cells[1], `${nameOf(key)}[${key.limit}]`);
      setText(row.cells[2], String(key.count));
      setText(row.cells[3], key.error > 0 ? String(key.error) : '');
    });
  byId('no-keys').hidden = keys.length > 0;
}

// ── Charts ─────────────────────────────────────────────────────────────────────────────────────

const charts = {};

function makeChart(id, stacked) {
  charts[id] = new Chart(byId(id), {
    type: 'line',
    data: {datasets: []},
    options: {
      animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      elements: {point: {radius: 0}, line: {borderWidth: 1.5, fill: stacked && 'stack'}},
      plugins: {legend: {position: 'bottom', labels: {boxWidth: 10, boxHeight: 2}}},
      scales: {
        x: {type: 'linear', min: -SECONDS_SHOWN, max: 0, ticks: {stepSize: 30, maxTicksLimit: 6, callback: value => `${value} s`}},
        y: {beginAtZero: true, suggestedMax: 1, stacked, ticks: {maxTicksLimit: 5}},
      },
    },
  });
}

function colorCharts() {
  const style = getComputedStyle(document.documentElement);
  for (const chart of Object.values(charts)) {
    chart.options.color = style.getPropertyValue('--front');
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = style.getPropertyValue('--soft');
      scale.grid = {color: style.getPropertyValue('--line')};
    }
    chart.update();
  }
}

// A label has the same color in all charts, and keeps it when other lines appear or disappear.
const colors = new Map();
function colorOf(label) {
  if (!colors.has(label)) colors.set(label, COLORS[colors.size % COLORS.length]);
  return colors.get(label);
}

// Each of `lines` is [label, value]: value(state) returns the line's value in a state.
function drawChart(id, lines) {
  const chart = charts[id];
  const now = session.history[session.history.length - 1].at;
  const age = (now - session.history[0].at) / 1000;
  chart.options.scales.x.min = -Math.min(SECONDS_SHOWN, Math.max(60, 30 * Math.ceil(age / 30)));
  chart.data.datasets = lines.map(([label, value]) => ({
    ...chart.data.datasets.find(set => set.label === label),
    label, borderColor: colorOf(label), backgroundColor: colorOf(label) + '30',
    data: session.history.map(({at, state}) => ({x: (at - now) / 1000, y: value(state)})),
  }));
  chart.update();
}

function drawRules(id, field) {
  const sums = new Map();
  for (const {state} of session.history) {
    for (const rule of state.rules) sums.set(nameOf(rule), (sums.get(nameOf(rule)) ?? 0) + rule[field]);
  }
  const busiest = [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_LINES);
  drawChart(id, busiest.map(([name]) =>
    [name, state => state.rules.find(rule => nameOf(rule) === name)?.[field] ?? 0]));
}

const sumOfStores = field => state => state.servers.reduce((sum, server) => sum + server.store[field], 0);

function drawCharts() {
  drawRules('allowed-chart', 'allowed_per_second');
  drawRules('denied-chart', 'denied_per_second');
  const milliseconds = us => us === null ? null : us / 1000;
  drawChart('latency-chart', [
    ['checks p50', state => milliseconds(state.check_latency.p50_us)],
    ['checks p99', state => milliseconds(state.check_latency.p99_us)],
    ['store p99', state => milliseconds(state.store_latency.p99_us)],
  ]);
  const {state} = session.history[session.history.length - 1];
  byId('redis').hidden = !state.servers.some(server => server.store.kind === 'redis');
  drawChart('redis-chart', [
    ['connections ready', sumOfStores('ready')],
    ['checks waiting', sumOfStores('waiting')],
    ['failed a second', sumOfStores('failures')],
    ['breakers open', sumOfStores('breakers_open')],
  ]);
}

// ── Playground ─────────────────────────────────────────────────────────────────────────────────

// The lines of a form field, each NAME=VALUE, as an object.
function linesOf(field) {
  const pairs = form.elements[field].value.split('\n').map(line => line.trim()).filter(line => line);
  return Object.fromEntries(pairs.map(line => {
    const at = line.indexOf('=');
    if (at < 1) throw new Error(`${field}: "${line}" is not NAME=VALUE`);
    return [line.slice(0, at), line.slice(at + 1)];
  }));
}

const quoted = word => /^[\w.\/:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

function commandOf(request) {
  const {name} = session.servers[form.elements.server.value || 0];
  const words = ['sluice', 'explain', request.domain,
    ...Object.entries(request.attributes).map(([name, value]) => `${name}=${value}`),
    ...Object.entries(request.amounts).flatMap(([name, value]) => ['--amount', `${name}=${value}`]),
    '--addr', name];
  return words.map(quoted).join(' ');
}

function matchOf(rule) {
  const parts = [element('strong', {textContent: rule.rule}), ` ${rule.effect}`];
  if (rule.reason) parts.push(`: ${rule.reason}`);
  const limits = rule.counters.map(({status, key}) => {
    const algorithm = status.algorithm.replace('ALGORITHM_', '').toLowerCase();
    if (status.limit === undefined) return element('li', {textContent: `${algorithm}: state unknown`});
    return element('li', {title: key}, `${algorithm} `,
      element('progress', {max: Math.max(1, Number(status.limit)), value: Number(status.remaining)}),
      ` ${status.remaining} of ${status.limit} left`, status.admitted ? '' : ', denies');
  });
  return element('li', {}, ...parts, element('ul', {}, ...limits));
}

async function explain() {
  const request = {domain: form.elements.domain.value, attributes: linesOf('attributes'), amounts: linesOf('amounts')};
  const {text, answer} = await call(ofServer('/api/explain'), request);
  session.explained = {request, answer};
  const [verdict] = text.split('\n');
  setText(byId('verdict'), verdict, answer.response.decision === 'DECISION_DENIED' ? 'bad' : 'good');
  byId('matches').replaceChildren(...answer.rules.map(matchOf));
  setText(byId('command'), commandOf(request));
  setText(byId('answer-text'), text);
  byId('answer').hidden = false;
  byId('reset').disabled = !answer.rules.some(rule => rule.counters.length > 0);
}

// Runs a task of the playground. If it fails, shows the error.
async function attempt(task) {
  try {
    await task();
    showError('request-error', null);
  } catch (error) {
    showError('request-error', error);
  }
}

// The attributes that the rule of `key` requires, such as endpoint=/pay if the rule has
// `match: {endpoint: /pay}`. Leaves out patterns, lists and values in quotes.
function requiredBy(key) {
  const rule = session.rules.find(it => nameOf(it) === nameOf(key));
  const conditions = rule?.yaml.match(/^match: \{(.*)\}$/m)?.[1].split(', ') ?? [];
  return conditions.filter(condition => /^[\w.-]+: [^"'{}[\],*]+$/.test(condition))
    .map(condition => condition.replace(': ', '='));
}

// The attributes in the part of a key after the rule: user=42 and client_ip=10.0.0.0 in
// "user=42/client_ip=10.0.0.0/24". Replaces %-escapes.
function attributesIn(subject) {
  const decoded = text => { try { return decodeURIComponent(text); } catch { return text; } };
  return subject.split('/').filter(part => part.includes('=')).map(decoded);
}

async function explainKey(key) {
  form.elements.domain.value = key.domain;
  form.elements.attributes.value = [...requiredBy(key), ...attributesIn(key.subject)].join('\n');
  form.elements.amounts.value = '';
  byId('playground').scrollIntoView();
  await attempt(explain);
}

async function resetKey(key) {
  await explainKey(key);
  if (!byId('reset').disabled) askReset(key.rule);
}

function askReset(rule) {
  const counted = session.explained.answer.rules.filter(it => it.counters.length > 0);
  const chosen = byId('reset-rule');
  chosen.replaceChildren(element('option', {value: '', textContent: 'every rule that matches'}),
    ...counted.map(it => element('option', {value: it.rule, textContent: it.rule})));
  chosen.value = counted.some(it => it.rule === rule) ? rule : '';
  chosen.onchange = () => byId('reset-keys').replaceChildren(
    ...counted.filter(it => !chosen.value || it.rule === chosen.value)
      .flatMap(it => it.counters.map(counter => element('li', {textContent: counter.key}))));
  chosen.onchange();
  byId('ask-reset').returnValue = '';
  byId('ask-reset').showModal();
}

async function reset() {
  const {domain, attributes} = session.explained.request;
  await call(ofServer('/api/reset'), {domain, attributes, rule: byId('reset-rule').value});
  await explain();
}

// ── The loop, and what the operator does ───────────────────────────────────────────────────────

function show(state) {
  showTotals(state);
  showServers(state.servers);
  showRules(state);
  showKeys(state);
}

const showLast = () => { if (session.history.length) show(session.history[session.history.length - 1].state); };

function showStatus(state) {
  const down = state.servers.filter(server => server.error).length;
  setText(byId('status'), down ? `${down} of ${state.servers.length} servers down` : 'live', down ? 'bad' : '');
}

async function poll() {
  const state = await call('/api/state');
  const at = Date.now();
  session.history = session.history.filter(it => at - it.at <= SECONDS_SHOWN * 1000);
  session.history.push({at, state});
  if (!session.servers) {
    session.servers = state.servers;
    form.elements.server.replaceChildren(...state.servers.map((server, index) =>
      element('option', {value: index, textContent: server.name})));
    byId('server-choice').hidden = state.servers.length < 2;
  }
  show(state);
  drawCharts();
  showStatus(state);
}

async function readRules() {
  try {
    session.rules = (await call(ofServer('/api/rules'))).rules;
    byId('domains').replaceChildren(...[...new Set(session.rules.map(rule => rule.domain))].map(value => element('option', {value})));
    showError('rules-error', null);
    showLast();
  } catch (error) {
    showError('rules-error', error);
  }
}

// Calls `task` again and again, except while the page is paused. Waits `pause` ms after each call.
async function repeat(task, pause) {
  for (;;) {
    if (!session.paused) await task();
    await new Promise(done => setTimeout(done, pause));
  }
}

function setPaused(paused) {
  session.paused = paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  setText(byId('pause'), paused ? 'Continue' : 'Pause');
  if (paused) setText(byId('status'), 'paused', '');
}

const KEYS = {
  '/': () => byId('filter').focus(),
  e: () => { byId('playground').scrollIntoView(); form.elements.domain.focus(); },
  k: () => { document.querySelector('input[name=keys]:not(:checked)').click(); },
  p: () => setPaused(!session.paused),
};

document.addEventListener('keydown', event => {
  const typing = event.target.closest('input:not([type=radio]), textarea, select, dialog');
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});
form.addEventListener('submit', event => { event.preventDefault(); attempt(explain); });
form.elements.server.addEventListener('change', readRules);
byId('reset').addEventListener('click', () => askReset(''));
byId('ask-reset').addEventListener('close', event => { if (event.target.returnValue === 'reset') attempt(reset); });
byId('pause').addEventListener('click', () => setPaused(!session.paused));
byId('filter').addEventListener('input', showLast);
for (const choice of document.querySelectorAll('input[name=keys]')) choice.addEventListener('change', showLast);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', colorCharts);

takeToken();
makeChart('allowed-chart', true);
makeChart('denied-chart', true);
makeChart('latency-chart', false);
makeChart('redis-chart', false);
colorCharts();
repeat(() => poll().catch(error => setText(byId('status'), `no answer: ${error.message}`, 'bad')), 1000);
repeat(readRules, 60000);  // not more often, because each call writes a line to the server's log
