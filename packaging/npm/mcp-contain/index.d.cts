/** How a server ended, as `mcp-contain` reports it; its documentation has the schema. */
export interface Ended {
  id: string;
  name: string;
  /** What held it, and why it is not the best. */
  containment: { mechanism: string; fallback: string | null };
  how: "itself" | "asked" | "killed" | "unproven";
  /** Seconds since 1970. */
  ended: number;
  asked: boolean;
  forced: boolean;
  host_gone: boolean;
  out_of_memory: boolean;
  code: number | null;
  signal: number | null;
  /** The number of other processes that had to be ended, and names of them. */
  swept: number;
  names: string[];
  /** From the first signal to its end. */
  seconds: number;
  evidence: string[];
  stderr: string | null;
}

/** The server was not started, and nothing of it is left. Its exit code and standard error say why. */
export declare class NotStarted extends Error {}

/** Something of the server may live. */
export declare class Unproven extends Error {
  /** `null` where its guardian was killed. */
  readonly report: Ended | null;
  /** Those of its processes that are known to live. */
  readonly survivors: { pid: number; name: string; parent: number }[];
}

/** The report of one server, for `contain`. Throws where there is no `mkfifo`. */
export declare class Report {
  constructor();
  /** Waits until the server has ended. Rejects with `Unproven` where something of it may live, and with `NotStarted` where it was not started. */
  ended(): Promise<Ended>;
}

export interface ContainOptions {
  /** Milliseconds to end in after the end of input, and again after SIGTERM; 2000 if not given. */
  grace?: number;
  /** Refuses to start a server that would be held by less. */
  require?: "guardian" | "cgroup" | "pidns";
  /** Says how the server ended. */
  report?: Report;
}

/**
 * Returns a copy of the parameters of a `StdioClientTransport` that starts the same server contained.
 * Throws where the platform's package is not installed.
 */
export declare function contain<P extends { command: string; args?: string[] }>(params: P, options?: ContainOptions): P & { args: string[] };

/** Returns the path of the program `mcp-contain`. Throws where the platform's package is not installed. */
export declare function program(): string;
