import { type Clock, sleep } from "../host/clock.ts";
import type { NetworkConf, PluginConf } from "./conf.ts";
import { CniError, cniCodes } from "./error.ts";
import type { CniVerb, InProcessPlugin, PluginCall } from "./plugin-call.ts";
import { deriveRequest, type RequestInput } from "./request.ts";
import type { TimeLimit } from "./time-limit.ts";
import { toCniError } from "./to-cni-error.ts";

type Fields = Readonly<Record<string, unknown>>;

/** How long one call of one plugin took, for metrics and for people. */
export interface PluginCallRecord {
  readonly verb: CniVerb;
  readonly network: string;
  readonly plugin: string;
  readonly containerId: string;
  readonly durationMs: number;
  /** Undefined if it succeeded. */
  readonly error: CniError | undefined;
}

/** Of a call without an attachment, such as GC, all are empty. */
export type Target = Pick<PluginCall, "containerId" | "netns" | "ifName" | "args">;

export interface PluginCallsDeps {
  /** Runs the plugins that are binaries. */
  readonly binaries: InProcessPlugin;
  /** The plugins of this process by their `type`. They come before binaries of the same name. */
  readonly inProcess: ReadonlyMap<string, InProcessPlugin>;
  readonly clock: Clock;
  /** Limits how long a plugin that asks for another try is waited for. */
  readonly timeLimit?: Pick<TimeLimit, "ofPlugin">;
  readonly onCall?: ((record: PluginCallRecord) => void) | undefined;
}

/**
 * Calls one plugin of a network. Resolves with what it answered, for ADD its result as JSON. Rejects with `CniError`, or with the
 * signal's reason when that aborts.
 */
export type CallPlugin = (
  verb: CniVerb,
  network: NetworkConf,
  plugin: PluginConf,
  input: RequestInput & { readonly target: Target },
  signal: AbortSignal,
) => Promise<Fields | undefined>;

/** A plugin that answers "try again later" is called again after each of these times. */
const RETRY_AFTER_MS = [200, 500, 1000, 2000] as const;

export function createPluginCalls({ binaries, inProcess, clock, timeLimit, onCall }: PluginCallsDeps): CallPlugin {
  async function callOnce(
    verb: CniVerb,
    network: string,
    { target, conf, capabilities }: Request,
    signal: AbortSignal,
  ) {
    const plugin = String(conf["type"]);
    const startedMs = clock.monotonicMs();
    const report = (error: CniError | undefined) => {
      const durationMs = clock.monotonicMs() - startedMs;
      onCall?.({ verb, network, plugin, containerId: target.containerId, durationMs, error });
    };
    try {
      const own = inProcess.get(plugin);
      const call = { verb, ...target, conf };
      const output = await (own === undefined
        ? binaries.call(call, signal)
        : own.call({ ...call, capabilities }, signal));
      report(undefined);
      return output;
    } catch (error) {
      if (signal.aborted) {
        report(new CniError(cniCodes.unknown, "was cancelled", { plugin }));
        throw signal.reason;
      }
      const failure = toCniError(error, plugin);
      report(failure);
      throw failure;
    }
  }

  return async (verb, network, plugin, { target, ...input }, signal) => {
    const { capabilities } = plugin;
    const request = { target, capabilities, conf: deriveRequest(network, plugin, input) };
    for (const waitMs of RETRY_AFTER_MS) {
      try {
        return await callOnce(verb, network.name, request, signal);
      } catch (error) {
        if (!(error instanceof CniError) || error.code !== cniCodes.tryAgainLater) throw error;
        // Without time for another try the plugin's own words are the error.
        const hasNoTime = () => timeLimit !== undefined && timeLimit.ofPlugin(verb) <= waitMs;
        if (hasNoTime()) throw error;
        // Between two ADDs of an attachment there must be a DEL. It is best-effort: the next ADD says what is wrong.
        if (verb === "ADD") await callOnce("DEL", network.name, request, signal).catch(ignoreCniError);
        if (hasNoTime()) throw error;
        await sleep(clock, waitMs, signal);
      }
    }
    return await callOnce(verb, network.name, request, signal);
  };
}

interface Request extends Pick<PluginConf, "capabilities"> {
  readonly target: Target;
  readonly conf: Fields;
}

/** For calls that are best-effort: the observer of the calls has got the error. */
export function ignoreCniError(error: unknown): void {
  if (!(error instanceof CniError)) throw error;
}
