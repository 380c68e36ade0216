/**
 * The codes of the specification's section 5, and those that libcni adds: 0 where a plugin says no code, 8 for a network
 * namespace, 999 for a fault of the executor. Plugins have codes of their own from 100 on.
 */
export const cniCodes = {
  unknown: 0,
  incompatibleVersion: 1,
  unsupportedField: 2,
  unknownContainer: 3,
  invalidEnvironment: 4,
  ioFailure: 5,
  decodingFailure: 6,
  invalidNetworkConf: 7,
  invalidNetns: 8,
  tryAgainLater: 11,
  notAvailable: 50,
  limitedConnectivity: 51,
  internal: 999,
} as const;

export interface CniErrorOptions {
  readonly details?: string;
  readonly plugin?: string | undefined;
  readonly stderr?: string;
  readonly cause?: unknown;
}

/**
 * A failed CNI operation. `message` and `details` are the `msg` and `details` of the plugin's error object, or the executor's own
 * words. Callers decide by `code`.
 */
export class CniError extends Error {
  override readonly name = "CniError";
  /** The plugin's own code, or one of `cniCodes`. */
  readonly code: number;
  readonly details: string;
  /** The `type` of the plugin that failed; undefined if the failure is not that of one plugin. */
  readonly plugin: string | undefined;
  /** The end of what the plugin printed on stderr. */
  readonly stderr: string;

  constructor(code: number, message: string, { details = "", plugin, stderr = "", cause }: CniErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.details = details;
    this.plugin = plugin;
    this.stderr = stderr;
  }
}

/** The error in one line: `bridge: failed to allocate: no address left (code 100)`. */
export function describeCniError({ code, message, details, plugin }: CniError): string {
  const words = [plugin, message, details].filter((text) => text !== undefined && text !== "");
  return `${words.join(": ")}${code === cniCodes.unknown ? "" : ` (code ${code})`}`;
}

/**
 * Throws one failure as it is, several as one error with the code of the first; does nothing without a failure. Those with the same words
 * count as one: after a timeout every further call fails in the same way.
 */
export function throwFailures(failures: readonly CniError[]): void {
  const distinct = new Map(failures.map((failure) => [describeCniError(failure), failure]));
  const [first] = distinct.values();
  if (first === undefined) return;
  if (distinct.size === 1) throw first;
  const message = [...distinct.keys()].join("; ");
  throw new CniError(first.code, message, { cause: new AggregateError(failures) });
}
