"use strict";

/** Returns the path of the program, which is in the platform's package. */
function program() {
  const name = `@mcp-contain/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/mcp-contain`);
  } catch (cause) {
    const known = Object.keys(require("./package.json").optionalDependencies).includes(name);
    const why = known ? `${name} is not installed; install mcp-contain again without --omit=optional` : `there is no package for ${process.platform} on ${process.arch}`;
    throw new Error(`mcp-contain: ${why}`, { cause });
  }
}

function contain(params, options = {}) {
  const { grace, require: level } = options;
  const args = [];
  if (grace !== undefined) args.push("--grace", `${Math.round(grace)}ms`);
  if (level !== undefined) args.push("--require", level);
  return { ...params, command: program(), args: [...args, "--", params.command, ...(params.args ?? [])] };
}

module.exports = { contain, program };
