import type { NetworkConf } from "./conf.ts";
import { CniError, cniCodes } from "./error.ts";
import { type CallPlugin, ignoreCniError, type Target } from "./plugin-calls.ts";
import type { ValidAttachment } from "./request.ts";
import { type CniResult, formatResult, parseResult } from "./result.ts";
import { isAtLeast } from "./version.ts";

/** What a runtime gives for one interface of one container. Specification, section 3, "Attachment Parameters". */
export interface Attachment extends Target {
  /** What a plugin gets in `runtimeConfig` if it declares the capability, such as `portMappings`. */
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
}

/** When `signal` aborts, what ADD has made is released as long as `undoSignal` has not aborted; both may be the same. */
export interface AddSignals {
  readonly signal: AbortSignal;
  readonly undoSignal: AbortSignal;
}

/** GC and STATUS concern no attachment. */
const NO_TARGET: Target = { containerId: "", netns: "", ifName: "", args: new Map() };

/**
 * Calls ADD of each plugin with the result of the one before it; resolves with the last result. If one fails, all plugins are
 * called with DEL, so that nothing of the attachment stays, and it rejects with the failure. When `undoSignal` aborts, its owner
 * has to call DEL.
 */
export async function addToChain(
  callPlugin: CallPlugin,
  conf: NetworkConf,
  attachment: Attachment,
  { signal, undoSignal }: AddSignals,
): Promise<CniResult> {
  let result: CniResult | undefined;
  try {
    for (const plugin of conf.plugins) {
      const output = await callPlugin("ADD", conf, plugin, inputOf(conf, attachment, result), signal);
      result = resultOf(output, plugin.type, conf);
    }
  } catch (error) {
    if (!undoSignal.aborted) await deleteAllOfChain(callPlugin, conf, attachment, result, undoSignal);
    throw error;
  }
  return result ?? parseResult({}, conf.cniVersion);
}

/** Calls DEL of the plugins in reverse order, each with the result of ADD (from 0.4.0 on). Rejects when one fails, without the rest. */
export async function deleteFromChain(
  callPlugin: CallPlugin,
  conf: NetworkConf,
  attachment: Attachment,
  result: CniResult | undefined,
  signal: AbortSignal,
): Promise<void> {
  const input = inputOf(conf, attachment, isAtLeast(conf.cniVersion, "0.4.0") ? result : undefined);
  for (const plugin of conf.plugins.toReversed()) await callPlugin("DEL", conf, plugin, input, signal);
}

/** Undoes an ADD that has failed: calls DEL as above, and goes on if a plugin fails. */
export async function deleteAllOfChain(
  callPlugin: CallPlugin,
  conf: NetworkConf,
  attachment: Attachment,
  result: CniResult | undefined,
  signal: AbortSignal,
): Promise<void> {
  const callEach: CallPlugin = async (...call) => {
    await callPlugin(...call).catch(ignoreCniError);
    return undefined;
  };
  await deleteFromChain(callEach, conf, attachment, result, signal);
}

/** Calls CHECK of each plugin with the result of ADD, until one fails. */
export async function checkChain(
  callPlugin: CallPlugin,
  conf: NetworkConf,
  attachment: Attachment,
  result: CniResult,
  signal: AbortSignal,
): Promise<void> {
  for (const plugin of conf.plugins) await callPlugin("CHECK", conf, plugin, inputOf(conf, attachment, result), signal);
}

/** Calls STATUS of each plugin, until one cannot serve ADD. */
export async function chainStatus(callPlugin: CallPlugin, conf: NetworkConf, signal: AbortSignal): Promise<void> {
  for (const plugin of conf.plugins) await callPlugin("STATUS", conf, plugin, { target: NO_TARGET }, signal);
}

/** Calls GC of each plugin. Returns the failures: each plugin is called, whatever the others answer. */
export async function collectChain(
  callPlugin: CallPlugin,
  conf: NetworkConf,
  validAttachments: readonly ValidAttachment[],
  signal: AbortSignal,
): Promise<readonly CniError[]> {
  const failures: CniError[] = [];
  for (const plugin of conf.plugins)
    try {
      await callPlugin("GC", conf, plugin, { target: NO_TARGET, validAttachments }, signal);
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      failures.push(error);
    }
  return failures;
}

function inputOf(
  { cniVersion }: NetworkConf,
  { capabilityArgs, ...target }: Attachment,
  result: CniResult | undefined,
) {
  return { target, capabilityArgs, prevResult: result && formatResult(result, cniVersion) };
}

function resultOf(output: Readonly<Record<string, unknown>> | undefined, plugin: string, conf: NetworkConf): CniResult {
  if (output === undefined) throw new CniError(cniCodes.decodingFailure, "it printed no result", { plugin });
  try {
    return parseResult(output, conf.cniVersion);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw new CniError(error.code, error.message, { plugin, cause: error });
  }
}
