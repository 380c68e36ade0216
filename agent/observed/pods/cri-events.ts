import type { RuntimeEvent } from "../../../cri/runtime.ts";
import type { ObservedContainer, ObservedSandbox } from "../../decide/pod/observed.ts";

export type ContainerEvent = Extract<RuntimeEvent, { kind: "container" }>;

/**
 * Whether an event can tell more than what was read already. States only go forward (created, running, exited, gone), so
 * the echo of our own calls is known for what it is, and costs no further look at the runtime.
 */
export function isNews(
  { change }: Pick<ContainerEvent, "change">,
  known: ObservedContainer | ObservedSandbox | undefined,
): boolean {
  switch (change) {
    case "created":
      return known === undefined;
    case "started":
      return known === undefined || !hasStarted(known);
    case "stopped":
      return known === undefined || !hasEnded(known);
    case "deleted":
      return known !== undefined;
    case "unknown":
      return true;
  }
}

function hasStarted(known: ObservedContainer | ObservedSandbox): boolean {
  // A sandbox is created and started by one call; one that is not ready any more has been started before.
  return "ready" in known || known.state === "running" || known.state === "exited";
}

/** True when a stop has been seen to have happened. */
export function hasEnded(known: ObservedContainer | ObservedSandbox): boolean {
  return "ready" in known ? !known.ready : known.state === "exited";
}
