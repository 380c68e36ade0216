import type { CriCallOptions, Runtime } from "./runtime.ts";

/** The methods by which an agent acts on pods. */
export type PodActions = Pick<
  Runtime,
  | "runPodSandbox"
  | "stopPodSandbox"
  | "removePodSandbox"
  | "updatePodSandboxResources"
  | "createContainer"
  | "startContainer"
  | "stopContainer"
  | "removeContainer"
  | "updateContainerResources"
  | "execSync"
  | "pullImage"
>;

export interface CallTracing {
  /** W3C Trace Context. Each call carries it. Rule: the kubelet's client of CRI sends it by otelgrpc. */
  readonly traceparent: string;
  /** Called before each call is sent. */
  readonly onCall?: (() => void) | undefined;
}

/** Returns the methods of `runtime`, whose calls are traced. */
export function tracedRuntime(runtime: PodActions, { traceparent, onCall }: CallTracing): PodActions {
  const traced = <Options extends CriCallOptions>(options?: Options) => {
    onCall?.();
    return { ...options, traceparent };
  };
  return {
    runPodSandbox: (config, handler, options) => runtime.runPodSandbox(config, handler, traced(options)),
    stopPodSandbox: (id, options) => runtime.stopPodSandbox(id, traced(options)),
    removePodSandbox: (id, options) => runtime.removePodSandbox(id, traced(options)),
    updatePodSandboxResources: (id, update, options) => runtime.updatePodSandboxResources(id, update, traced(options)),
    createContainer: (sandbox, config, sandboxConfig, options) =>
      runtime.createContainer(sandbox, config, sandboxConfig, traced(options)),
    startContainer: (id, options) => runtime.startContainer(id, traced(options)),
    stopContainer: (id, timeoutSeconds, options) => runtime.stopContainer(id, timeoutSeconds, traced(options)),
    removeContainer: (id, options) => runtime.removeContainer(id, traced(options)),
    updateContainerResources: (id, resources, options) =>
      runtime.updateContainerResources(id, resources, traced(options)),
    execSync: (id, cmd, timeoutSeconds, options) => runtime.execSync(id, cmd, timeoutSeconds, traced(options)),
    pullImage: (image, auth, sandboxConfig, options) => runtime.pullImage(image, auth, sandboxConfig, traced(options)),
  };
}
