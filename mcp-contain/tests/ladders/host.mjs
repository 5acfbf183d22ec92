// A host on the TypeScript SDK: node host.mjs NODE_MODULES COMMAND [ARGS...]
const [modules, command, ...args] = process.argv.slice(2);
const sdk = `${modules}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);
const transport = new StdioClientTransport({ command, args, stderr: "ignore" });
const client = new Client({ name: "host", version: "1" });
await client.connect(transport);
console.log((await client.listTools()).tools.length);
await client.close();
