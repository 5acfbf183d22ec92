// A stdio server that is the suite's HTTP server: each line of its input is a POST, each message of an answer is a line of its output.
//
//   node forward.mjs URL
//
// No message is changed, but for what HTTP says by other means: an error whose id is null is the answer of its own request, and gets
// its id. The headers that HTTP asks of a client are made of the messages. A failure of HTTP without a message ends it, as a server
// that crashes.
import { createInterface } from "node:readline";

const url = process.argv[2];
const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

function fail(problem) {
  console.error(`forward: ${problem}`);
  process.exit(1);
}

function write(message, request) {
  if (message.id === null && message.error && request?.id !== undefined) message.id = request.id;
  if (request?.method === "initialize" && message.result) headers["MCP-Protocol-Version"] = message.result.protocolVersion;
  process.stdout.write(JSON.stringify(message) + "\n");
}

async function readEvents(response, request) {
  let rest = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data.trim()) write(JSON.parse(data), request);
    }
  }
}

async function post(request) {
  const own = { ...headers };
  const version = request.params?._meta?.["io.modelcontextprotocol/protocolVersion"];
  if (version) {
    Object.assign(own, { "MCP-Protocol-Version": version, "Mcp-Method": request.method });
    const name = request.params.name ?? request.params.uri;
    if (name) own["Mcp-Name"] = name;
  }
  const response = await fetch(url, { method: "POST", headers: own, body: JSON.stringify(request) });
  const session = response.headers.get("mcp-session-id");
  if (session) headers["Mcp-Session-Id"] = session;
  if (response.headers.get("content-type")?.includes("text/event-stream")) return readEvents(response, request);
  const body = await response.text();
  if (body) {
    try {
      return write(JSON.parse(body), request);
    } catch {}
  }
  if (!response.ok || request.id !== undefined && request.method) fail(`${request.method}: HTTP ${response.status} ${body}`);
}

// What the server asks of its own accord. A server may have no such stream.
async function listen() {
  const response = await fetch(url, { headers: { ...headers, Accept: "text/event-stream" } });
  if (response.ok && response.headers.get("content-type")?.includes("text/event-stream")) await readEvents(response);
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const posted = post(message).catch((error) => fail(error.stack));
  // In their order, but for requests: the answer of one may need what follows.
  if (message.id === undefined || message.method === "initialize") await posted;
  if (message.method === "notifications/initialized") listen().catch(() => {});
}
process.exit(0);
