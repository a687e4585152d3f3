// A fake of an OpenAI-compatible endpoint, for tests. When a request ends, prints its bill as a line of
// JSON.
//
// The last message of a request selects the answer: "300 tokens" (a word each), "300 tokens, 200 ms each",
// "300 tokens, break" (the connection breaks in the middle), "300 tokens, as text" (an answer that is not
// JSON), "status 500".
'use strict';

const http = require('http');

const {LISTEN = '127.0.0.1:8001'} = process.env;
const PAUSE = 2;  // ms between tokens, unless the message gives another number
const THOUGHT = 3;  // tokens that are billed at the end and never sent

async function answer(request, response) {
  let text = '';
  for await (const part of request) text += part;
  const {model, stream, user, messages, max_tokens = Infinity} = JSON.parse(text);
  const said = String(messages?.at(-1)?.content);
  const status = Number(said.match(/status (\d+)/)?.[1] ?? 200);
  const wanted = Math.min(Number(said.match(/(\d+) tokens/)?.[1] ?? 10), max_tokens);
  const bill = {id: request.headers['x-request-id'], user, model, input: Math.ceil(text.length / 4)};
  const usage = {prompt_tokens: bill.input, completion_tokens: wanted + THOUGHT};
  if (status !== 200) {
    response.writeHead(status, {'content-type': 'application/json'});
    response.end('{"error": {"message": "as you wish"}}\n');
  } else if (!stream) {
    console.log(JSON.stringify({...bill, output: usage.completion_tokens, complete: true}));
    response.writeHead(200, {'content-type': 'application/json'});
    const content = 'word '.repeat(wanted);
    const json = JSON.stringify({choices: [{message: {content}}], usage});
    response.end(said.includes('as text') ? content : json);
  } else {
    response.writeHead(200, {'content-type': 'text/event-stream'});
    const pause = Number(said.match(/(\d+) ms/)?.[1] ?? PAUSE);
    sendTokens({wanted, usage, bill, pause, breaks: said.includes('break')}, response);
  }
}

function sendTokens({wanted, usage, bill, pause, breaks}, response) {
  const send = (data) => response.write(`event: message\ndata: ${JSON.stringify(data)}\n\n`);
  let sent = 0;
  let complete = false;
  const timer = setInterval(() => {
    if (response.writableNeedDrain) return;
    if (breaks && sent >= wanted / 2) {
      response.destroy();
    } else if (sent < wanted) {
      sent += 1;
      send({choices: [{index: 0, delta: {content: 'word '}}]});
    } else {
      complete = true;
      clearInterval(timer);
      send({choices: [], usage});
      response.end('data: [DONE]\n\n');
    }
  }, pause);
  response.once('close', () => {
    clearInterval(timer);
    const output = complete ? usage.completion_tokens : sent;
    console.log(JSON.stringify({...bill, output, complete}));
  });
}

const server = http.createServer(answer);
const [, host, port] = LISTEN.match(/^(.*):(\d+)$/);
server.listen(Number(port), host, 4096, () => console.error(`upstream: ready ${server.address().port}`));
