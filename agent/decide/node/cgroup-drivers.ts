import type { ObservedNode } from "./observed-node.ts";

/** The container runtime uses another cgroup driver than this agent. */
export interface DriverMismatch {
  /** Both sides, what follows, and the cure. */
  readonly message: string;
  /** Whether no sandbox can start. Otherwise sandboxes run outside the cgroups that the agent limits. */
  readonly isFatal: boolean;
}

/**
 * Compares how the runtime and the agent make cgroups: undefined if they agree, or if one of them is unknown yet. runc with the
 * systemd driver refuses a path that is no slice (`expected cgroupsPath to be of format "slice:prefix:name"`); with the cgroupfs
 * driver it takes the name of a slice for a path, and makes the container's cgroup elsewhere.
 */
export function driverMismatch({
  runtime,
  ownCgroups: own,
}: Pick<ObservedNode, "runtime" | "ownCgroups">): DriverMismatch | undefined {
  const { cgroupDriver } = runtime;
  if (cgroupDriver === undefined || own === undefined || cgroupDriver.name === own) return undefined;
  const { name, isReported } = cgroupDriver;
  // What is reported may be the machine's driver, where the default runtime is not runc.
  if (own === "none") return name === "systemd" && !isReported ? WITHOUT_CGROUPS : undefined;
  const isFatal = name === "systemd";
  const follows = isFatal ? "no pod can start" : "the limits of pods and of the node hold for no container";
  const cure = isReported
    ? "restart this agent, which takes the runtime's driver when it starts"
    : `set cgroupDriver: ${name} and restart this agent, or set SystemdCgroup = ${!isFatal} in the runtime's configuration and restart the runtime`;
  return {
    message: `the container runtime uses the cgroup driver ${name} and this agent ${own}, so ${follows}: ${cure}`,
    isFatal,
  };
}

const WITHOUT_CGROUPS: DriverMismatch = {
  message:
    "the container runtime uses the cgroup driver systemd, which needs a slice for each pod, and cgroupsPerQOS is false, so no pod can start: set cgroupsPerQOS: true and restart this agent, or set SystemdCgroup = false in the runtime's configuration and restart the runtime",
  isFatal: true,
};
