// A host on the TypeScript SDK: node client.mjs NODE_MODULES TOOL COMMAND [ARGS...]
// Says what it has seen as one line of JSON, and what notifications came.
const [modules, tool, command, ...args] = process.argv.slice(2);
const sdk = `${modules}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });
const client = new Client({ name: "host", version: "1" });
await client.connect(transport);
const able = client.getServerCapabilities();
const seen = {
  server: client.getServerVersion(),
  able,
  tools: (await client.listTools()).tools,
  prompts: able.prompts && (await client.listPrompts()).prompts,
  resources: able.resources && (await client.listResources()).resources,
  templates: able.resources && (await client.listResourceTemplates()).resourceTemplates,
};
if (tool !== "-") {
  const [name, params] = [tool.split("=")[0], JSON.parse(tool.slice(tool.indexOf("=") + 1))];
  let progress = 0;
  seen.called = await client.callTool({ name, arguments: params }, undefined, { onprogress: () => progress++ });
  seen.progress = progress > 0;
}
await client.ping();
console.log(JSON.stringify(seen));
await client.close();
