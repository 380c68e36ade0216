import { CriError } from "../../cri/error.ts";
import type { Action, ActionKind } from "../decide/action.ts";
import { TranslateError } from "../translate/translate-error.ts";

/** A failure in Kubernetes' words, or `later` when the runtime is away: then nobody is to blame, and nothing is counted. */
export type Explanation = { readonly reason: string; readonly message: string } | "later";

/** The waiting reasons that users, controllers and dashboards know. */
const reasons: Readonly<Record<ActionKind, string>> = {
  prepareVolumes: "FailedMount",
  pullImage: "ErrImagePull",
  runSandbox: "CreatePodSandboxError",
  createContainer: "CreateContainerError",
  startContainer: "RunContainerError",
  stopContainer: "KillContainerError",
  removeContainer: "RemoveContainerError",
  stopSandbox: "KillPodSandboxError",
  removeSandbox: "KillPodSandboxError",
  removePodFiles: "FailedCleanup",
};

/** Runtimes that know better why a pull failed say so by how their message begins (KEP-4622). */
const PULL_REASONS = ["RegistryUnavailable", "SignatureValidationFailed"] as const;

export function explain(action: Action, error: unknown): Explanation {
  if (error instanceof CriError && (error.code === "UNAVAILABLE" || error.code === "CANCELLED")) return "later";
  if (error instanceof TranslateError) return { reason: error.reason, message: error.message };
  const message = error instanceof Error ? error.message : String(error);
  if (action.kind === "pullImage") {
    const known = PULL_REASONS.find((reason) => message.includes(`${reason}:`));
    if (known !== undefined) return { reason: known, message };
  }
  const prefix = action.kind === "runSandbox" ? "Failed to create pod sandbox: " : "";
  return { reason: reasons[action.kind], message: prefix + message };
}
