// A host on the TypeScript SDK: node host.mjs NODE_MODULES COMMAND [ARGS...]
// Asks a server for its tools, and ends it as its SDK does when its own input ends.
const [modules, command, ...args] = process.argv.slice(2);
const sdk = `${modules}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);
const transport = new StdioClientTransport({ command, args, stderr: "ignore" });
const client = new Client({ name: "host", version: "1" });
await client.connect(transport);
console.log("tools:", (await client.listTools()).tools.length);
for await (const _ of process.stdin);
await client.close();
