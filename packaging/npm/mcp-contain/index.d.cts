export interface ContainOptions {
  /** Milliseconds to end in after the end of input, and again after SIGTERM; 2000 if not given. */
  grace?: number;
  /** Refuses to start a server that would be held by less. */
  require?: "guardian" | "cgroup" | "pidns";
}

/**
 * Returns a copy of the parameters of a `StdioClientTransport` that starts the same server contained.
 * Throws where the platform's package is not installed.
 */
export declare function contain<P extends { command: string; args?: string[] }>(params: P, options?: ContainOptions): P & { args: string[] };

/** Returns the path of the program `mcp-contain`. Throws where the platform's package is not installed. */
export declare function program(): string;
