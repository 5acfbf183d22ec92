// `node model.mjs TOOL ARGUMENTS COMMAND...`: runs a host with a stand-in for its model on the loopback, in the protocols of
// Anthropic, Google and OpenAI. It has the host call this tool of its MCP server, and repeats what the tool answered.
// `{address}` in a word is the stand-in's.
import { spawn } from "node:child_process";
import { createServer } from "node:http";

const [tool, json, command, ...args] = process.argv.slice(2);
const input = JSON.parse(json);
// Hosts prefix a tool's name, and write it in characters of their own.
const plain = (name) => name.replaceAll("-", "_");
const find = (names) => names.find((name) => plain(name ?? "").endsWith(plain(tool)));
// What the tool answered, wherever the protocol has it.
const text = (value) => /The sum of [^"\\]*/.exec(JSON.stringify(value))?.[0];

function anthropic({ messages, tools = [] }) {
  const said = text(messages);
  const name = said ? undefined : find(tools.map(({ name }) => name));
  const block = name ? { type: "tool_use", id: "toolu_1", name, input: {} } : { type: "text", text: "" };
  const delta = name ? { type: "input_json_delta", partial_json: json } : { type: "text_delta", text: said ?? "nothing" };
  const usage = { input_tokens: 1, output_tokens: 1 };
  return [
    { type: "message_start", message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: name ? "tool_use" : "end_turn" }, usage },
    { type: "message_stop" },
  ];
}

function google({ contents, tools = [] }) {
  const said = text(contents);
  const name = said ? undefined : find(tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations.map(({ name }) => name)));
  const parts = [name ? { functionCall: { name, args: input } } : { text: said ?? "nothing" }];
  return [{ candidates: [{ content: { role: "model", parts }, finishReason: "STOP", index: 0 }], usageMetadata: { totalTokenCount: 2 } }];
}

function openai({ input: items, tools = [] }) {
  const said = text(items);
  const all = tools.flatMap((entry) => (entry.tools ? entry.tools.map(({ name }) => ({ name, namespace: entry.name })) : [entry]));
  const name = said ? undefined : find(all.map(({ name }) => name));
  const item = name
    ? { type: "function_call", call_id: "call_1", arguments: json, ...all.find((entry) => entry.name === name) }
    : { type: "message", role: "assistant", content: [{ type: "output_text", text: said ?? "nothing" }] };
  const response = { id: "resp_1", usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } };
  return [{ type: "response.created", response }, { type: "response.output_item.done", item }, { type: "response.completed", response }];
}

const protocols = [
  [/^\/v1\/messages/, anthropic],
  [/^\/v1\/responses/, openai],
  [/:(stream)?generateContent/i, google],
];

const server = createServer(async (request, response) => {
  const chunks = await Array.fromAsync(request);
  const protocol = protocols.find(([path]) => path.test(request.url));
  if (!protocol) return response.writeHead(404).end("{}");
  const events = protocol[1](JSON.parse(Buffer.concat(chunks).toString()));
  if (request.url.includes(":generateContent")) return response.setHeader("content-type", "application/json").end(JSON.stringify(events[0]));
  response.setHeader("content-type", "text/event-stream");
  response.end(events.map((event) => `${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`).join(""));
});

server.listen(0, "127.0.0.1", () => {
  const address = `http://127.0.0.1:${server.address().port}`;
  const environment = {
    ...process.env,
    ANTHROPIC_BASE_URL: address,
    GOOGLE_GEMINI_BASE_URL: address,
    OPENAI_BASE_URL: `${address}/v1`,
    ANTHROPIC_API_KEY: "none",
    GEMINI_API_KEY: "none",
    OPENAI_API_KEY: "none",
  };
  const words = args.map((word) => word.replaceAll("{address}", address));
  spawn(command, words, { stdio: ["ignore", "inherit", "inherit"], env: environment }).on("exit", (code) => process.exit(code ?? 1));
});
