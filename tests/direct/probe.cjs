// Preloaded into each node, by NODE_OPTIONS: writes down what the server sees, and nothing of npm.
const script = process.argv[1] ?? "";
if (process.env.MCP_DIRECT_SEEN && require("node:worker_threads").isMainThread && !/\/np[mx](-cli\.js)?$/.test(script)) {
  try {
    const seen = { argv: process.argv, options: process.execArgv, directory: process.cwd(), env: process.env };
    require("node:fs").writeFileSync(process.env.MCP_DIRECT_SEEN, JSON.stringify(seen), { flag: "wx" });
  } catch (error) {
    // A child of the server: the first one counts.
    if (error.code !== "EEXIST") throw error;
  }
}
