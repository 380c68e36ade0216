import type { Clock } from "../../host/clock.ts";
import { messageOf } from "../../host/error-message.ts";
import { isObject } from "../../proto/is-object.ts";
import { CniError, cniCodes } from "../error.ts";
import { toCniError } from "../to-cni-error.ts";
import type { AgentAnswer } from "./ask-agent.ts";
import { type DelegateCall, isDelegateVerb, readDelegateCall } from "./delegate-call.ts";
import { DELEGATE_VERSION, type DelegateConf, parseDelegateConf } from "./delegate-conf.ts";
import { toErrorObject } from "./error-object.ts";
import type { CallOutput } from "./execute-call.ts";

/** As MAX_INPUT of berth-cni.c, which leaves a longer configuration to this program. */
const MAX_CONF_BYTES = 1 << 20;

export interface DelegateDeps {
  /** A runtime gives none. The static form, berth-cni.c, passes on how much of the call's time is left: `--time-left-ms=N`. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readStdin: () => Promise<string>;
  readonly clock: Clock;
  readonly askAgent: (socket: string, call: DelegateCall, signal: AbortSignal) => Promise<AgentAnswer>;
  /** Executes the call in this process. */
  readonly execute: (conf: DelegateConf, call: DelegateCall, signal: AbortSignal) => Promise<CallOutput>;
}

/** What the delegate prints on standard output, and its exit code. */
export interface DelegateExit {
  readonly stdout: string;
  readonly exitCode: 0 | 1;
}

/**
 * One call of the delegate, by the parameters in `env` and the configuration on standard input. The agent executes it; without an
 * agent this process does, so that sandboxes can always be removed. The locks of the executor let one of both run at a time.
 * Resolves with what to print: the result, or the error object of a failure. Specification, section 2.
 */
export async function runDelegate(deps: DelegateDeps): Promise<DelegateExit> {
  try {
    const output = await answer(deps);
    return { stdout: output === undefined ? "" : `${JSON.stringify(output)}\n`, exitCode: 0 };
  } catch (error) {
    return { stdout: `${JSON.stringify(toErrorObject(toCniError(error)))}\n`, exitCode: 1 };
  }
}

async function answer(deps: DelegateDeps): Promise<CallOutput> {
  const { args, env, readStdin } = deps;
  const verb = env["CNI_COMMAND"] ?? "";
  const timeLeftMs = parseTimeLeftMs(args);
  if (verb === "VERSION") return { cniVersion: DELEGATE_VERSION, supportedVersions: [DELEGATE_VERSION] };
  // The agent calls STATUS and GC of the chain itself.
  if (verb === "STATUS" || verb === "GC") return undefined;
  if (!isDelegateVerb(verb)) {
    const rule = "must be one of ADD, DEL, CHECK, STATUS, GC, VERSION";
    throw new CniError(cniCodes.invalidEnvironment, `CNI_COMMAND: found ${JSON.stringify(verb)}, ${rule}`);
  }
  const fields = parseConf(await readStdin());
  const conf = parseDelegateConf(fields, "the configuration of berth-cni");
  const call = { ...readDelegateCall(verb, env, fields), timeLeftMs: timeLeftMs ?? conf.timeoutMs };
  return withoutResult(verb, await callInTime(deps, conf, call));
}

/** DEL and CHECK print nothing. */
const withoutResult = (verb: DelegateCall["verb"], output: CallOutput): CallOutput =>
  verb === "ADD" ? output : undefined;

/** Rejects with code 11 when the call has taken all its time, and says what it has waited for. */
async function callInTime(
  deps: DelegateDeps,
  conf: DelegateConf,
  call: DelegateCall & { readonly timeLeftMs: number },
): Promise<CallOutput> {
  const { clock, askAgent, execute } = deps;
  const { socket, timeoutMs } = conf;
  const startedMs = clock.monotonicMs();
  const deadline = new AbortController();
  const cancel = clock.wakeAt(clock.now() + call.timeLeftMs, () => deadline.abort());
  const { signal } = deadline;
  let waitsFor = `the agent on ${socket}, which may be stopped,`;
  try {
    const asked = await askAgent(socket, call, signal);
    if (asked.kind === "answered") return asked.output;
    // The runtime calls DEL after an ADD that has failed, which removes what the agent has made of it.
    if (asked.kind === "lost" && call.verb === "ADD") {
      const message = `the agent on ${socket} has ended during ADD (${asked.reason}); DEL and another ADD may follow`;
      throw new CniError(cniCodes.tryAgainLater, message);
    }
    waitsFor = "the chain";
    const passedMs = clock.monotonicMs() - startedMs;
    return await execute(conf, { ...call, timeLeftMs: call.timeLeftMs - passedMs }, signal);
  } catch (error) {
    // The wait for a lock ends before the call does, but its error may be late: it names the holder.
    const saysWhy = error instanceof CniError && error.code === cniCodes.tryAgainLater;
    if (!signal.aborted || saysWhy) throw error;
    const message = `${waitsFor} has not answered ${call.verb} within ${timeoutMs} ms`;
    throw new CniError(cniCodes.tryAgainLater, message, { cause: error });
  } finally {
    cancel();
  }
}

/** The milliseconds of `--time-left-ms`; undefined without arguments. Throws `CniError` with code 4 for any others. */
function parseTimeLeftMs(args: readonly string[]): number | undefined {
  const [first, ...rest] = args;
  if (first === undefined) return undefined;
  const [, digits] = /^--time-left-ms=([1-9]\d{0,14})$/.exec(first) ?? [];
  if (digits !== undefined && rest.length === 0) return Number(digits);
  const message = `found the arguments ${JSON.stringify(args)}, must be none: a container runtime calls berth-cni with variables of the environment`;
  throw new CniError(cniCodes.invalidEnvironment, message);
}

/**
 * Throws `CniError` with code 6 for a text that is too long or no JSON object, with code 1 for another version than the list of
 * `berth cni install` has.
 */
function parseConf(text: string): Readonly<Record<string, unknown>> {
  if (Buffer.byteLength(text) > MAX_CONF_BYTES)
    throw new CniError(
      cniCodes.decodingFailure,
      `the configuration on standard input is longer than ${MAX_CONF_BYTES} bytes`,
    );
  const fields = parseJson(text);
  if (!isObject(fields))
    throw new CniError(cniCodes.decodingFailure, "the configuration on standard input is no JSON object");
  const { cniVersion } = fields;
  if (cniVersion === DELEGATE_VERSION) return fields;
  const found = JSON.stringify(cniVersion) ?? "nothing";
  throw new CniError(cniCodes.incompatibleVersion, `cniVersion: found ${found}, must be "${DELEGATE_VERSION}"`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `the configuration on standard input is not JSON: ${messageOf(cause)}`;
    throw new CniError(cniCodes.decodingFailure, message, { cause });
  }
}
