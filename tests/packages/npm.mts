// A host: starts a server, calls a tool, says what it answered and after how long, and waits to be killed. One that is to
// see a certain end (`ended-HOW`) ends the server instead, and expects that.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { contain, NotStarted, Report, Unproven } from "mcp-contain";

const [sdk, how, command = "", ...args] = process.argv.slice(2);
const required: typeof import("mcp-contain") = createRequire(import.meta.url)("mcp-contain");
// npx may need all of it to reach its registry.
const bare = { command, args, env: process.env as Record<string, string> };
const report = new Report();
const params = how.startsWith("ended-") ? contain(bare, { grace: 1000, report }) : how === "contained" ? contain(bare, { grace: 1000, require: "guardian" }) : how === "required" ? required.contain(bare) : bare;
const since = performance.now();

async function answer() {
  const call = { name: "echo", arguments: { message: "heard" } };
  if (sdk === "client") {
    const { Client } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "host", version: "1.0.0" });
    await client.connect(new StdioClientTransport(params));
    return [client, await client.callTool(call)] as const;
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const client = new Client({ name: "host", version: "1.0.0" });
  await client.connect(new StdioClientTransport(params));
  return [client, await client.callTool(call)] as const;
}

function guardian() {
  const children = (pid: string | number) => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return Number(children(children(process.pid)));
}

async function ends() {
  // Before the start, too.
  const early = report.ended();
  early.catch(() => {});
  try {
    const [client, answered] = await answer();
    assert.match(JSON.stringify(answered), /heard/);
    if (how === "ended-unproven") process.kill(guardian(), "SIGKILL");
    await client.close();
  } catch (error) {
    assert.equal(how, "ended-never", error as Error);
  }
  try {
    const ended = await early;
    assert.deepEqual(ended, await report.ended());
    assert.equal(how, `ended-${ended.how}`);
    assert(ended.evidence.includes("reaped") && ended.names.length === ended.swept);
    assert.equal(ended.swept > 0, how !== "ended-itself");
  } catch (error) {
    if (error instanceof NotStarted) assert.equal(how, "ended-never");
    else if (error instanceof Unproven) assert(how === "ended-unproven" && error.report === null && error.survivors);
    else throw error;
  }
  console.log(`npm.mts: ${how}`);
}

if (how.startsWith("ended-")) {
  await ends();
  process.exit();
}
const [, answered] = await answer();
assert.match(JSON.stringify(answered), /heard/);
console.log(`answered after ${((performance.now() - since) / 1000).toFixed(2)} s`);
setInterval(() => {}, 60_000);
