import type { Config } from "./config.ts";
import { ConfigError } from "./problem.ts";

/** One entry of a directory; a link is reported as what it points to, or as "other" where that cannot be told. */
export interface DirectoryEntry {
  readonly name: string;
  readonly kind: "file" | "directory" | "other";
}

/**
 * What reading the configuration needs of the machine. Relative paths start at the working directory. Both reject with
 * an error whose message says why (absent, not permitted, a loop of links).
 */
export interface ConfigReading {
  /**
   * The bytes of a regular file, links followed. Rejects, without ever blocking, on whatever is not a regular file (a
   * FIFO, a device, a directory) and on a file longer than `maxBytes`.
   */
  readonly read: (path: string, maxBytes: number) => Promise<Uint8Array>;
  /** The entries of a directory in any order. */
  readonly list: (path: string) => Promise<readonly DirectoryEntry[]>;
}

/** What the command line asks for: the agent with its configuration, or one of the two answers that need none. */
export type Loaded =
  | {
      readonly kind: "config";
      readonly config: Config;
      /** One line each: settings that are known and have no effect yet, and what happens instead. */
      readonly warnings: readonly string[];
      /** Files below `--config-dir` that are not drop-ins, for the debug log. */
      readonly skippedFiles: readonly string[];
    }
  | { readonly kind: "version" }
  | { readonly kind: "help"; readonly text: string };

/**
 * Resolves flags, `--config` and the drop-ins of `--config-dir` (in this order of precedence, over the defaults).
 *
 * @param argv the arguments alone, without the program and its command
 * @param hostname the machine's own name, for a node that is given none
 * @throws ConfigError with every problem found
 */
export function loadConfig(options: {
  readonly argv: readonly string[];
  readonly reading: ConfigReading;
  readonly hostname: string;
}): Promise<Loaded> {
  return Promise.reject(new ConfigError([{ where: options.argv.join(" "), field: "", message: "not loaded" }]));
}
