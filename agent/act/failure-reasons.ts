import { CriError, formatRpcError } from "../../cri/error.ts";
import type { FailureTraits } from "../decide/actions/failure-traits.ts";
import { type Action, recordOf } from "../decide/pod/action.ts";
import type { ActionResult } from "../decide/pod/memory.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { HookError } from "./hooks/lifecycle-hooks.ts";

/**
 * Converts an action's error to the kubelet's reason and message. `isOutage`: the runtime was unreachable, so the pod
 * is not at fault.
 */
export function toFailure(action: Action, error: unknown): Omit<Extract<ActionResult, { ok: false }>, "ok"> {
  const traits = recordOf(action).failure(action);
  const isOutage = error instanceof CriError && (error.code === "UNAVAILABLE" || error.code === "CANCELLED");
  const reason = specificReason(traits, error) ?? traits.reason;
  const message = messageOf(traits, error);
  const cure = traits.cures?.find((each) => each.pattern.test(message))?.text;
  const text = `${prefixOf(traits, error)}${message}${cure === undefined ? "" : `; ${cure}`}`;
  const failure = { reason, message: text, isOutage };
  return error instanceof HookError ? { ...failure, statusMessage: error.statusMessage } : failure;
}

function specificReason(traits: FailureTraits, error: unknown): string | undefined {
  if (traits.hasOnlyThisReason) return undefined;
  return error instanceof TranslateError ? error.reason : runtimeReason(traits, error);
}

function messageOf({ runtimeText }: FailureTraits, error: unknown): string {
  if (!(error instanceof CriError)) return error instanceof Error ? error.message : String(error);
  const isDetails = runtimeText === "details" || (runtimeText === "details if UNKNOWN" && error.code === "UNKNOWN");
  return isDetails ? error.details : formatRpcError(error);
}

function prefixOf({ messagePrefix = "", omitsPrefixForTranslateErrors }: FailureTraits, error: unknown): string {
  return omitsPrefixForTranslateErrors && error instanceof TranslateError ? "" : messagePrefix;
}

function runtimeReason({ runtimeReasons = [] }: FailureTraits, error: unknown): string | undefined {
  if (!(error instanceof CriError) || error.code !== "UNKNOWN") return undefined;
  return runtimeReasons.find((reason) => error.details.startsWith(reason));
}
