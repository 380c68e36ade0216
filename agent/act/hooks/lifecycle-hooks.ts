import type { Runtime } from "../../../cri/runtime.ts";
import { type Clock, sleep } from "../../../host/clock.ts";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { Container, LifecycleHandler, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { addressesOf } from "../../decide/status/pod-ips.ts";
import { MIN_STOP_GRACE_SECONDS } from "../../decide/termination/stop.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { toProbeRequest } from "../../translate/probe-request.ts";
import { containerDir, postStartMark, preStopMark } from "../../translate/volumes/paths.ts";
import type { PodStops } from "./pod-stops.ts";

/** A lifecycle hook failed. `message` is for the log and omits the command's output. */
export class HookError extends Error {
  override readonly name = "HookError";
  /** The kubelet's message for the container status and the event; it includes the command's output. */
  readonly statusMessage: string;
  constructor(message: string, statusMessage: string) {
    super(message);
    this.statusMessage = statusMessage;
  }
}

export interface HookDeps {
  readonly runtime: Pick<Runtime, "execSync" | "stopContainer">;
  readonly clock: Clock;
  readonly root: Files;
  readonly facts: () => NodeFacts;
  readonly stops: PodStops;
}

export interface HookInput {
  readonly pod: Pod | undefined;
  readonly observed: ObservedPod;
}

/** A hook that hangs must end eventually; nothing else would reveal it. */
const MAX_POST_START_MS = 600_000;

/**
 * Marks on disk that the `postStart` hook of an instance is due, so that the next agent runs it. Throws `FilesError`.
 */
export async function markPostStart(root: Files, pod: Pod, container: Container, attempt: number): Promise<void> {
  const { uid = "" } = pod.metadata;
  await root.makeFolder(containerDir(uid, container.name), 0o750);
  await root.makeFile(postStartMark(uid, container.name, attempt), 0o600);
}

/**
 * Runs the `postStart` hook of a started container, then removes its mark. The mark stays until the hook succeeds, so
 * hooks run at least once. Rejects with `HookError`, `TranslateError` or `FilesError`.
 */
export async function runPostStart(
  deps: HookDeps,
  { pod, observed }: HookInput,
  { name, id, attempt }: Extract<Action, { kind: "runPostStart" }>,
  signal: AbortSignal,
): Promise<HookResult> {
  const container = pod && containerNamed(pod, name);
  const hook = container?.lifecycle?.postStart;
  const limits = { timeoutMs: MAX_POST_START_MS, signal };
  const hookResult =
    pod === undefined || container === undefined || hook === undefined
      ? {}
      : await runHook(deps, hook, { pod, observed, container, id }, limits);
  await deps.root.remove(postStartMark(observed.uid, name, attempt));
  return hookResult;
}

/**
 * Runs the `preStop` hook of a container within the grace period, then marks on disk that it has ended, so that no later
 * agent runs it again. A failure does not prevent the stop: it is returned as `preStopFailure`, for the event and the
 * log. Rejects only when the signal aborts.
 */
export async function runPreStop(
  deps: HookDeps,
  { pod, observed }: HookInput,
  { name, id, gracePeriodSeconds, usedGraceSeconds = 0 }: PreStopCall,
  signal: AbortSignal,
): Promise<PreStopResult> {
  const container = pod && containerNamed(pod, name);
  const hook = container?.lifecycle?.preStop;
  if (pod === undefined || container === undefined || hook === undefined) return {};
  const limits = { timeoutMs: gracePeriodSeconds * 1000, usedMs: usedGraceSeconds * 1000, signal };
  const result = await runHook(deps, hook, { pod, observed, container, id }, limits).catch(
    (error: unknown): PreStopResult => {
      signal.throwIfAborted();
      return { preStopFailure: error instanceof Error ? error.message : String(error) };
    },
  );
  await markPreStopEnded(deps.root, observed, container, id);
  return result;
}

async function markPreStopEnded(
  root: Files,
  { uid, containers }: ObservedPod,
  { name }: Container,
  id: ContainerId,
): Promise<void> {
  const attempt = containers.find((each) => each.id === id)?.attempt ?? 0;
  try {
    await root.makeFolder(containerDir(uid, name), 0o750);
    await root.makeFile(preStopMark(uid, name, attempt), 0o600);
  } catch (error) {
    // The stop is due, also on a full disk. Without the mark, at worst the next agent runs the hook again.
    if (!(error instanceof FilesError)) throw error;
  }
}

/**
 * Runs the `preStop` hook if it is due, then stops the container, both within one grace period. Rejects with
 * `CriError`.
 */
export async function stopContainer(
  deps: HookDeps,
  input: HookInput,
  action: Extract<Action, { kind: "stopContainer" }>,
  signal: AbortSignal,
): Promise<PreStopResult> {
  const { runtime, clock, stops } = deps;
  const { id, gracePeriodSeconds, preStop } = action;
  const startedMs = clock.monotonicMs();
  const hookResult = preStop === true ? await runPreStop(deps, input, action, signal) : {};
  const elapsedSeconds = Math.floor((clock.monotonicMs() - startedMs) / 1000);
  const graceSeconds = Math.max(gracePeriodSeconds - elapsedSeconds, MIN_STOP_GRACE_SECONDS);
  const stop = () => runtime.stopContainer(id, graceSeconds, { signal });
  await stops.run({ uid: input.observed.uid, pod: input.pod }, { graceSeconds, stop }, signal);
  return hookResult;
}

type PreStopCall = Pick<
  Extract<Action, { kind: "runPreStop" }>,
  "name" | "id" | "gracePeriodSeconds" | "usedGraceSeconds"
>;

/** What the event of a hook reports. */
interface HookResult {
  /** The server of an HTTPS hook that speaks only plain HTTP, so the hook was repeated without TLS. */
  readonly plainHttpHost?: string;
}

type PreStopResult = HookResult & { readonly preStopFailure?: string };

interface HookTarget {
  readonly pod: Pod;
  readonly observed: ObservedPod;
  readonly container: Container;
  readonly id: ContainerId;
}

interface HookLimits {
  readonly timeoutMs: number;
  /** How long ago the hook became due: an earlier agent may have slept for that time. */
  readonly usedMs?: number;
  readonly signal: AbortSignal;
}

async function runHook(
  { runtime, clock, facts }: HookDeps,
  hook: LifecycleHandler,
  { pod, observed, container, id }: HookTarget,
  { timeoutMs, usedMs = 0, signal }: HookLimits,
): Promise<HookResult> {
  const { sleep: pause, ...handler } = hook;
  if (pause !== undefined) {
    await sleep(clock, Math.min(Math.max(0, pause.seconds * 1000 - usedMs), timeoutMs), signal);
    return {};
  }
  const toHookError = (why: string, error = why, printed = "") =>
    new HookError(
      why,
      `${kubeletPrefix(hook, container, pod)} - error: ${error}${hook.exec ? `, message: ${JSON.stringify(printed)}` : ""}`,
    );
  // The API accepts tcpSocket for compatibility only; its documentation says that such hooks fail.
  if (handler.tcpSocket !== undefined) throw toHookError("tcpSocket hooks are not supported");
  const [podIP] = addressesOf(pod, observed, facts().hostIPs);
  // Loaded on first use: few containers have hooks.
  const { createProbeExecutor, hookUserAgent: userAgent } = await import("../probes/probe-executor.ts");
  const request = toProbeRequest(handler, { pod, container, podIP, userAgent, isHook: true });
  // The runtime does not return while a child holds the command's output open, whatever its timeout, so we need our own
  // limit.
  const timeout = new AbortController();
  const cancel = clock.wakeAt(clock.now() + timeoutMs, () => timeout.abort());
  const limits = { timeoutMs, signal: AbortSignal.any([signal, timeout.signal]) };
  const execute = createProbeExecutor(runtime, userAgent);
  const { result, message, exitCode, stderr = "", ...hookResult } = await execute(request, id, limits).finally(cancel);
  signal.throwIfAborted();
  if (timeout.signal.aborted) throw toHookError(`it did not finish within ${timeoutMs / 1000}s`);
  const command = hook.exec?.command?.join(" ");
  if (exitCode !== undefined)
    throw toHookError(
      `its command exited with code ${exitCode}`,
      `command '${command}' exited with ${exitCode}: ${stderr}`,
      message,
    );
  if (result === "failure" || result === "error") throw toHookError(message);
  return hookResult;
}

/** The beginning of the kubelet's message. */
function kubeletPrefix({ exec, httpGet }: LifecycleHandler, container: Container, pod: Pod): string {
  const { name = "", namespace = "default", uid = "" } = pod.metadata;
  const target = `for Container "${container.name}" in Pod "${name}_${namespace}(${uid})" failed`;
  if (exec !== undefined) return `Exec lifecycle hook ([${(exec.command ?? []).join(" ")}]) ${target}`;
  return httpGet === undefined ? `Lifecycle hook ${target}` : `HTTP lifecycle hook (${httpGet.path ?? "/"}) ${target}`;
}
