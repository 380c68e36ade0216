import type { RuntimeContainerEvent } from "../../../cri/runtime.ts";
import type { ObservedContainer, ObservedSandbox } from "../../decide/pod/observed.ts";

/**
 * Whether an event reports more than is already known. States only go forward (created, running, exited, removed), so
 * the events of our own calls are recognised and cost no further read of the runtime.
 */
export function isNewChange(
  { change }: Pick<RuntimeContainerEvent, "change">,
  known: ObservedContainer | ObservedSandbox | undefined,
): boolean {
  switch (change) {
    case "created":
      return known === undefined;
    case "started":
      return known === undefined || !hasStarted(known);
    case "stopped":
      return known === undefined || !hasStopped(known);
    case "deleted":
      return known !== undefined;
    case "unknown":
      return true;
  }
}

function hasStarted(known: ObservedContainer | ObservedSandbox): boolean {
  // One call creates and starts a sandbox; a sandbox that is not ready any more was started before.
  return "ready" in known || known.state === "running" || known.state === "exited";
}

/** True if the status shows that it has stopped. */
export function hasStopped(known: ObservedContainer | ObservedSandbox): boolean {
  return "ready" in known ? !known.ready : known.state === "exited";
}
