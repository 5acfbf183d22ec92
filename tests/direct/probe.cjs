// Preloaded into each node, by NODE_OPTIONS: writes down what the server sees and the code that it leaves with; npm and install scripts write nothing.
const script = process.argv[1] ?? "";
const isServer = process.env.npm_lifecycle_event === "npx" && !/\/np[mx](-cli\.js)?$/.test(script);
if (isServer && process.env.MCP_DIRECT_SEEN && require("node:worker_threads").isMainThread) {
  try {
    const fs = require("node:fs");
    const parent = fs.readFileSync(`/proc/${process.ppid}/cmdline`, "utf8");
    const seen = { argv: process.argv, options: process.execArgv, directory: process.cwd(), env: process.env, parent };
    fs.writeFileSync(process.env.MCP_DIRECT_SEEN, JSON.stringify(seen), { flag: "wx" });
    process.on("exit", (code) => fs.writeFileSync(`${process.env.MCP_DIRECT_SEEN}-left`, String(code)));
  } catch (error) {
    // A child of the server: the first one counts.
    if (error.code !== "EEXIST") throw error;
  }
}
