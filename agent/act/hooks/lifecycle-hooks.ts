import type { Runtime } from "../../../cri/runtime.ts";
import { type Clock, sleep } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { Container, LifecycleHandler, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { addressesOf } from "../../decide/status/pod-ips.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { enquiryOf } from "../../translate/probe-request.ts";
import { containerFolder, postStartMark } from "../../translate/volumes/paths.ts";

/** A hook that did not succeed, in words for the log: what its command has printed is not among them. */
export class HookError extends Error {
  override readonly name = "HookError";
  /** The kubelet's words, for the status of its container: these have in them what was printed. */
  readonly told: string;
  constructor(message: string, told: string) {
    super(message);
    this.told = told;
  }
}

export interface HookSettings {
  readonly runtime: Pick<Runtime, "execSync" | "stopContainer">;
  readonly clock: Clock;
  readonly root: Files;
  readonly facts: () => NodeFacts;
}

export interface HookScene {
  readonly pod: Pod | undefined;
  readonly observed: ObservedPod;
}

/** A hook may take its time, but not for ever: nothing else would tell that it hangs. */
const LONGEST_POST_START_MS = 600_000;
const SHORTEST_GRACE_SECONDS = 2;

/** Says on the disk that the `postStart` hook of an instance is due, so that whoever comes after us knows. Throws `FilesError`. */
export async function markPostStart(root: Files, pod: Pod, container: Container, attempt: number): Promise<void> {
  const { uid = "" } = pod.metadata;
  await root.makeFolder(containerFolder(uid, container.name), 0o750);
  await root.makeFile(postStartMark(uid, container.name, attempt), 0o600);
}

/**
 * Runs the `postStart` hook of a container that was started. Its mark stays until it has succeeded: hooks run at least once. Answers how
 * it was asked. Rejects with `HookError`, `TranslateError` or `FilesError`.
 */
export async function runPostStart(
  settings: HookSettings,
  { pod, observed }: HookScene,
  { name, id, attempt }: Extract<Action, { kind: "runHook" }>,
  signal: AbortSignal,
): Promise<HookAsked> {
  const container = pod && containerNamed(pod, name);
  const hook = container?.lifecycle?.postStart;
  const limits = { timeoutMs: LONGEST_POST_START_MS, signal };
  const asked =
    pod === undefined || container === undefined || hook === undefined
      ? {}
      : await runHook(settings, hook, { pod, observed, container, id }, limits);
  await settings.root.remove(postStartMark(observed.uid, name, attempt));
  return asked;
}

/**
 * Runs the `preStop` hook of a container, within the grace. Answers how it was asked, and why it has failed, if it has, which keeps nobody
 * from stopping: an event tells of it, and the log why. Rejects only when it is given up.
 */
export async function runPreStop(
  settings: HookSettings,
  { pod, observed }: HookScene,
  { name, id, gracePeriodSeconds }: Pick<Extract<Action, { kind: "runPreStop" }>, "name" | "id" | "gracePeriodSeconds">,
  signal: AbortSignal,
): Promise<PreStopped> {
  const container = pod && containerNamed(pod, name);
  const hook = container?.lifecycle?.preStop;
  if (pod === undefined || container === undefined || hook === undefined) return {};
  const limits = { timeoutMs: gracePeriodSeconds * 1000, signal };
  try {
    return await runHook(settings, hook, { pod, observed, container, id }, limits);
  } catch (error) {
    signal.throwIfAborted();
    return { hookFailure: error instanceof Error ? error.message : String(error) };
  }
}

/** Stops a container; its `preStop` hook first, if it has to be run, within the same grace. Rejects with `CriError`. */
export async function stopContainer(
  settings: HookSettings,
  scene: HookScene,
  action: Extract<Action, { kind: "stopContainer" }>,
  signal: AbortSignal,
): Promise<PreStopped> {
  const { runtime, clock } = settings;
  const { id, gracePeriodSeconds, preStop } = action;
  const begunAt = clock.now();
  const told = preStop === true ? await runPreStop(settings, scene, action, signal) : {};
  const usedSeconds = Math.max(0, Math.floor((clock.now() - begunAt) / 1000));
  await runtime.stopContainer(id, Math.max(gracePeriodSeconds - usedSeconds, SHORTEST_GRACE_SECONDS), { signal });
  return told;
}

/** How a hook was asked, where users are told of it. */
interface HookAsked {
  /** The server of an HTTPS hook that answers in plain HTTP alone. */
  readonly askedInPlainText?: string;
}

type PreStopped = HookAsked & { readonly hookFailure?: string };

interface Hooked {
  readonly pod: Pod;
  readonly observed: ObservedPod;
  readonly container: Container;
  readonly id: ContainerId;
}

async function runHook(
  { runtime, clock, facts }: HookSettings,
  hook: LifecycleHandler,
  { pod, observed, container, id }: Hooked,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<HookAsked> {
  const { sleep: pause, ...handler } = hook;
  if (pause !== undefined) {
    await sleep(clock, Math.min(pause.seconds * 1000, timeoutMs), signal);
    return {};
  }
  const failed = (why: string, error = why, printed = "") =>
    new HookError(
      why,
      `${whatFailed(hook, container, pod)} - error: ${error}${hook.exec ? `, message: ${JSON.stringify(printed)}` : ""}`,
    );
  // The API takes it for the sake of old manifests, and says that it fails.
  if (handler.tcpSocket !== undefined) throw failed("a hook cannot ask a TCP socket");
  const [podIP] = addressesOf(pod, observed, facts().hostIPs);
  // Loaded only where it is used: few containers have hooks.
  const { createAsk, hookUserAgent: userAgent } = await import("../probes/probe-executor.ts");
  const enquiry = enquiryOf(handler, { pod, container, podIP, userAgent, isHook: true });
  // A child that holds the command's output open keeps the runtime's answer back, whatever limit the runtime has: ours counts.
  const late = new AbortController();
  const cancel = clock.wakeAt(clock.now() + timeoutMs, () => late.abort());
  const limits = { timeoutMs, signal: AbortSignal.any([signal, late.signal]) };
  const ask = createAsk(runtime, userAgent);
  const { result, message, exitCode, stderr = "", ...asked } = await ask(enquiry, id, limits).finally(cancel);
  signal.throwIfAborted();
  if (late.signal.aborted) throw failed(`no end within ${timeoutMs / 1000}s`);
  const command = hook.exec?.command?.join(" ");
  if (exitCode !== undefined)
    throw failed(
      `its command exited with code ${exitCode}`,
      `command '${command}' exited with ${exitCode}: ${stderr}`,
      message,
    );
  if (result === "failure" || result === "error") throw failed(message);
  return asked;
}

/** How the kubelet's words begin. */
function whatFailed({ exec, httpGet }: LifecycleHandler, container: Container, pod: Pod): string {
  const { name = "", namespace = "default", uid = "" } = pod.metadata;
  const whose = `for Container "${container.name}" in Pod "${name}_${namespace}(${uid})" failed`;
  if (exec !== undefined) return `Exec lifecycle hook ([${(exec.command ?? []).join(" ")}]) ${whose}`;
  return httpGet === undefined ? `Lifecycle hook ${whose}` : `HTTP lifecycle hook (${httpGet.path ?? "/"}) ${whose}`;
}
