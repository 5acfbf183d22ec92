// A host: starts a server, calls a tool, says what it answered and after how long, and waits to be killed.
import assert from "node:assert";
import { createRequire } from "node:module";
import { contain } from "mcp-contain";

const [sdk, how, command = "", ...args] = process.argv.slice(2);
const required: typeof import("mcp-contain") = createRequire(import.meta.url)("mcp-contain");
// npx may need all of it to reach its registry.
const bare = { command, args, env: process.env as Record<string, string> };
const params = how === "contained" ? contain(bare, { grace: 1000, require: "guardian" }) : how === "required" ? required.contain(bare) : bare;
const since = performance.now();

async function answer() {
  const call = { name: "echo", arguments: { message: "heard" } };
  if (sdk === "client") {
    const { Client } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "host", version: "1.0.0" });
    await client.connect(new StdioClientTransport(params));
    return client.callTool(call);
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const client = new Client({ name: "host", version: "1.0.0" });
  await client.connect(new StdioClientTransport(params));
  return client.callTool(call);
}

assert.match(JSON.stringify(await answer()), /heard/);
console.log(`answered after ${((performance.now() - since) / 1000).toFixed(2)} s`);
setInterval(() => {}, 60_000);
