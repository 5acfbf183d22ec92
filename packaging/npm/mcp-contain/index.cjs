"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");

/** Returns the path of the program, which is in the platform's package. */
function program() {
  const name = `@mcp-contain/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/mcp-contain${process.platform === "win32" ? ".exe" : ""}`);
  } catch (cause) {
    const known = Object.keys(require("./package.json").optionalDependencies).includes(name);
    const why = known ? `${name} is not installed; install mcp-contain again without --omit=optional` : `there is no package for ${process.platform} on ${process.arch}`;
    throw new Error(`mcp-contain: ${why}`, { cause });
  }
}

/** Nothing is left, for it was not started. */
class NotStarted extends Error {
  name = "NotStarted";
}

class Unproven extends Error {
  name = "Unproven";

  constructor(report, survivors) {
    const alive = survivors.map(({ name, pid }) => `${name} (${pid})`).join(", ");
    super(`nothing proves that the server has ended; known to live: ${alive || "none"}; \`mcp-contain reap\` ends what is left`);
    this.report = report;
    this.survivors = survivors;
  }
}

/** Returns the known processes of a server. */
function survivors(id) {
  const { servers } = JSON.parse(execFileSync(program(), ["ps", "--json"], { encoding: "utf8" }));
  return servers.filter((server) => server.id === id).flatMap((server) => server.processes);
}

const flags = fs.constants.O_RDONLY | fs.constants.O_NONBLOCK;
const closed = new FinalizationRegistry((fd) => fs.closeSync(fd));
/** The reports whose descriptor these parameters name. */
const named = new WeakMap();

class Report {
  #socket;
  #text;

  constructor() {
    // Without a name from here on: the guardian opens it by this process's descriptor.
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "mcp-contain-"));
    try {
      const fifo = path.join(directory, "report");
      execFileSync("mkfifo", ["-m", "600", fifo]);
      this.fd = fs.openSync(fifo, flags);
      // The socket closes its own at the end.
      this.#socket = new net.Socket({ fd: fs.openSync(fifo, flags), readable: true, writable: false });
    } finally {
      fs.rmSync(directory, { recursive: true });
    }
    Object.defineProperty(this, "fd", { enumerable: false });
    closed.register(this, this.fd);
    const socket = this.#socket.unref().setEncoding("utf8");
    this.#text = new Promise((resolve, reject) => {
      let text = "";
      socket.on("data", (part) => (text += part)).on("end", () => resolve(text)).on("error", reject);
    });
    this.#text.catch(() => {});
  }

  async ended() {
    this.#socket.ref();
    const lines = (await this.#text).split("\n").slice(0, -1).map((line) => JSON.parse(line));
    const last = lines.at(-1);
    if (!last) throw new NotStarted("the server was not started; its exit code and standard error say why");
    const report = last.event === "ended" ? last : null;
    if (report === null || report.how === "unproven") throw new Unproven(report, survivors(last.id));
    return report;
  }
}

function contain(params, options = {}) {
  const { grace, require: level, report } = options;
  const args = [];
  if (grace !== undefined) args.push("--grace", `${Math.round(grace)}ms`);
  if (level !== undefined) args.push("--require", level);
  if (report !== undefined) args.push("--report", `/proc/${process.pid}/fd/${report.fd}`);
  const contained = { ...params, command: program(), args: [...args, "--", params.command, ...(params.args ?? [])] };
  if (report !== undefined) named.set(contained, report);
  return contained;
}

module.exports = { NotStarted, Report, Unproven, contain, program };
