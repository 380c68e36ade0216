import type { Runtime } from "../../../cri/runtime.ts";
import type { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { FakeRuntime } from "../../fakes/runtime.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";

const runtimeVerbs = {
  version: "reads",
  status: "reads",
  runPodSandbox: "mutates",
  stopPodSandbox: "mutates",
  removePodSandbox: "mutates",
  updatePodSandboxResources: "mutates",
  podSandboxStatus: "reads",
  listPodSandbox: "reads",
  listPodSandboxStats: "reads",
  podSandboxProcess: "reads",
  createContainer: "mutates",
  startContainer: "mutates",
  stopContainer: "mutates",
  removeContainer: "mutates",
  updateContainerResources: "mutates",
  reopenContainerLog: "mutates",
  containerStats: "reads",
  listContainerStats: "reads",
  containerStatus: "reads",
  listContainers: "reads",
  execSync: "mutates",
  exec: "reads",
  attach: "reads",
  portForward: "reads",
  imageStatus: "reads",
  pullImage: "mutates",
  listImages: "reads",
  removeImage: "mutates",
  imageFsInfo: "reads",
  events: "follows",
} as const satisfies VerbsOf<Runtime>;

/** The container runtime of one agent. */
export function runtimeSeam(runtime: FakeRuntime, lifetime: AgentLifetime): { readonly runtime: Runtime } {
  const sandboxName = ({ metadata }: PodSandboxConfig) =>
    `${metadata?.namespace}/${metadata?.name} #${metadata?.attempt}`;
  const containerName = (sandbox: PodSandboxConfig | undefined, { metadata }: ContainerConfig) =>
    `${sandbox?.metadata?.namespace}/${sandbox?.metadata?.name}/${metadata?.name} #${metadata?.attempt}`;
  const nameOf = (id: string) => {
    const container = runtime.containers.get(id as ContainerId);
    if (container !== undefined) return containerName(container.sandbox.config, container.config);
    const sandbox = runtime.sandboxes.get(id as SandboxId);
    return sandbox === undefined ? id : sandboxName(sandbox.config);
  };
  const subjectOf = (verb: string, [first, ...others]: readonly unknown[]) => {
    if (verb === "runPodSandbox") return sandboxName(first as PodSandboxConfig);
    if (verb === "createContainer") return containerName(others[1] as PodSandboxConfig, others[0] as ContainerConfig);
    return nameOf(String(first));
  };
  return { runtime: lifetime.wrap<Runtime>({ name: "runtime", adapter: runtime, verbs: runtimeVerbs, subjectOf }) };
}
