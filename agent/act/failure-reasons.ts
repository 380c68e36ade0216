import { asRpcError, CriError } from "../../cri/error.ts";
import { PULL_REASONS } from "../decide/container/image.ts";
import type { Action, ActionKind } from "../decide/pod/action.ts";
import type { ActionResult } from "../decide/pod/memory.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { HookError } from "./hooks/lifecycle-hooks.ts";

/** The waiting reasons that users, controllers and dashboards know. */
const reasons: Readonly<Record<ActionKind, string>> = {
  prepareVolumes: "FailedMount",
  pullImage: "ErrImagePull",
  runSandbox: "CreatePodSandboxError",
  createContainer: "CreateContainerError",
  startContainer: "RunContainerError",
  runHook: "PostStartHookError",
  runPreStop: "KillContainerError",
  stopContainer: "KillContainerError",
  removeContainer: "RemoveContainerError",
  stopSandbox: "KillPodSandboxError",
  removeSandbox: "KillPodSandboxError",
  removeVolumes: "FailedCleanup",
  releaseIds: "FailedCleanup",
  removePodFiles: "FailedCleanup",
};

/** A failure in the words that users know. `isOutage`: the runtime is away, so nobody is to blame. */
export function explain(action: Action, error: unknown): Omit<Extract<ActionResult, { ok: false }>, "ok"> {
  const isOutage = error instanceof CriError && (error.code === "UNAVAILABLE" || error.code === "CANCELLED");
  const reason = ownReason(action, error) ?? reasons[action.kind];
  const told = error instanceof HookError ? { told: error.told } : {};
  return { reason, message: prefixOf(action, error) + wordsOf(action, error), ...told, isOutage };
}

function ownReason(action: Action, error: unknown): string | undefined {
  // A hook is put into words as a probe is, and fails in its own.
  if (action.kind === "runHook") return undefined;
  return error instanceof TranslateError ? error.reason : pullReason(action, error);
}

/** What users search for, so it is the kubelet's to the letter: of some calls the runtime's text alone, of others gRPC's words too. */
function wordsOf(action: Action, error: unknown): string {
  if (!(error instanceof CriError)) return error instanceof Error ? error.message : String(error);
  switch (action.kind) {
    case "createContainer":
    case "startContainer":
      return error.details;
    case "pullImage":
      return error.code === "UNKNOWN" ? error.details : asRpcError(error);
    case "prepareVolumes":
    case "runSandbox":
    case "runHook":
    case "runPreStop":
    case "stopContainer":
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return asRpcError(error);
  }
}

function prefixOf({ kind }: Action, error: unknown): string {
  if (kind === "runSandbox") return "Failed to create pod sandbox: ";
  // What one volume lacks is said in a sentence of its own.
  return kind === "prepareVolumes" && !(error instanceof TranslateError) ? "Unable to attach or mount volumes: " : "";
}

/**
 * Runtimes that know better why a pull failed say so by how their message begins. The CRI has no field for it (KEP-4622), so a
 * text decides.
 */
function pullReason(action: Action, error: unknown): string | undefined {
  if (action.kind !== "pullImage" || !(error instanceof CriError) || error.code !== "UNKNOWN") return undefined;
  return Object.keys(PULL_REASONS).find((reason) => error.details.startsWith(reason));
}
