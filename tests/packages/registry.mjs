// `node registry.mjs DIRECTORY COMMAND...`: runs a command of npm with a registry on the loopback, of the packages in this directory alone.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";

const [directory, command, ...args] = process.argv.slice(2);
const archives = readdirSync(directory).filter((name) => name.endsWith(".tgz"));
const manifests = archives.map((name) => JSON.parse(execFileSync("tar", ["-xOzf", `${directory}/${name}`, "package/package.json"])));

const server = createServer((request, response) => {
  const path = decodeURIComponent(request.url.slice(1));
  if (archives.includes(path)) return response.end(readFileSync(`${directory}/${path}`));
  const at = manifests.findIndex(({ name }) => name === path);
  if (at < 0) return response.writeHead(404).end("{}");
  const { name, version } = manifests[at];
  const shasum = createHash("sha1").update(readFileSync(`${directory}/${archives[at]}`)).digest("hex");
  const dist = { tarball: `${registry()}/${archives[at]}`, shasum };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ name, "dist-tags": { latest: version }, versions: { [version]: { ...manifests[at], dist } } }));
});
const registry = () => `http://127.0.0.1:${server.address().port}`;

server.listen(0, "127.0.0.1", () => {
  const environment = { ...process.env, npm_config_registry: registry(), "npm_config_@mcp-contain:registry": registry() };
  spawn(command, args, { stdio: "inherit", env: environment }).on("exit", (code) => process.exit(code ?? 1));
});
