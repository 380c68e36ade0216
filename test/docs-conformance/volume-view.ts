import { configMaps, persistentVolumeClaims, persistentVolumes, secrets } from "../../kube/resource.ts";
import { type Mount, MountPropagation } from "../../proto/cri/gen/api.ts";
import type { PersistentVolumeSpec, TokenRequest } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import type { AgentHarness } from "../scenarios/harness.ts";

/*
 * What a container sees of its volumes: the files behind the mounts of its newest instance, followed as a process in the
 * container follows them. A fake disk forgets a removed file, which a real mount of the file keeps.
 */

/** Mounts of every container that are no volumes. */
const ownMounts: readonly string[] = ["/etc/hosts", "/dev/termination-log"];

/** The volume mounts of the newest instance of a container. Throws if it has none yet. */
export function mountsOf({ runtime }: AgentHarness, container = "a"): readonly Mount[] {
  const found = [...runtime.containers.values()].findLast(({ config }) => config.metadata?.name === container);
  if (found === undefined) throw new Error(`no container ${container} exists`);
  return found.config.mounts.filter(({ containerPath }) => !ownMounts.includes(containerPath));
}

interface SeenFile {
  readonly text: string;
  readonly mode: number;
  readonly user: number;
  readonly group: number;
}

async function seenFiles(harness: AgentHarness, container?: string): Promise<ReadonlyMap<string, SeenFile>> {
  const root = harness.disk.at("/");
  const seen = new Map<string, SeenFile>();
  const visit = async (path: string, hostPath: string): Promise<void> => {
    const found = await root.stat(hostPath);
    if (found?.kind === "file") seen.set(path, { ...found, text: await root.read(hostPath, 1 << 21) });
    if (found?.kind !== "directory") return;
    for (const { name } of (await root.list(hostPath)) ?? [])
      if (!name.startsWith("..")) await visit(`${path}/${name}`, `${hostPath}/${name}`);
  };
  for (const { containerPath, hostPath } of mountsOf(harness, container)) await visit(containerPath, hostPath);
  return seen;
}

/** The files in a container's volumes with their texts: `{ "/site/colour": "blue" }`. */
export async function textsIn(harness: AgentHarness, container?: string): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries([...(await seenFiles(harness, container))].map(([path, { text }]) => [path, text]));
}

/** The files in a container's volumes with their modes: `{ "/site/colour": "644" }`. */
export async function modesIn(harness: AgentHarness, container?: string): Promise<Readonly<Record<string, string>>> {
  const files = [...(await seenFiles(harness, container))];
  return Object.fromEntries(files.map(([path, { mode }]) => [path, mode.toString(8)]));
}

/** The owner of a file in a container's volumes: `1000:2000`. */
export async function ownerOf(harness: AgentHarness, path: string, container?: string): Promise<string> {
  const found = (await seenFiles(harness, container)).get(path);
  return `${found?.user}:${found?.group}`;
}

/** The path on the node of what a container sees at a path, and whether it may write there. */
export function placeOf(harness: AgentHarness, path: string, container?: string) {
  const mounts = mountsOf(harness, container).filter(
    ({ containerPath }) => path === containerPath || path.startsWith(`${containerPath}/`),
  );
  const [mount] = mounts.toSorted((a, b) => b.containerPath.length - a.containerPath.length);
  if (mount === undefined) throw new Error(`no volume is mounted at ${path}`);
  return { hostPath: mount.hostPath + path.slice(mount.containerPath.length), isWritable: !mount.readonly };
}

/** Writes a file as a process in a container. Throws if the mount is read-only. */
export async function writeIn(harness: AgentHarness, path: string, text: string, container?: string): Promise<void> {
  const { hostPath, isWritable } = placeOf(harness, path, container);
  if (!isWritable) throw new Error("Read-only file system");
  await harness.disk.at("/").write(hostPath, text, 0o644);
}

const propagationNames: Readonly<Record<MountPropagation, string>> = {
  [MountPropagation.PROPAGATION_PRIVATE]: "private",
  [MountPropagation.PROPAGATION_HOST_TO_CONTAINER]: "rslave",
  [MountPropagation.PROPAGATION_BIDIRECTIONAL]: "rshared",
};
/** How mounts propagate in a container's volumes, in the order of its mounts, in the words of mount(8). */
export const propagationsIn = (harness: AgentHarness): readonly string[] =>
  mountsOf(harness).map(({ propagation }) => propagationNames[propagation]);

/** The file systems that are mounted on the node: `tmpfs at …/volumes/kubernetes.io~secret/keys`. */
export async function mountedOnNode({ mounts }: AgentHarness): Promise<readonly string[]> {
  const [, ...below] = await mounts.list();
  return below.map(({ fsType, mountPoint }) => `${fsType} at ${mountPoint.replace(/^.*\/pods\/[^/]+/, "…")}`);
}

/** What the node has left of pods: files, folders and mounts. */
export const leftovers = ({ disk, mounts }: AgentHarness): readonly string[] => [
  ...disk.paths().filter((path) => path.startsWith("/root/pods/")),
  ...mounts.mountPoints,
];

type Texts = Readonly<Record<string, string>>;

/** The messages of the pod's `FailedMount` events, each once. */
export async function mountFailures(harness: AgentHarness, pod = "web"): Promise<readonly string[]> {
  const messages = (await harness.events(pod)).flatMap(
    (event) => /^\d+x Warning FailedMount: (.*)$/s.exec(event)?.[1] ?? [],
  );
  return [...new Set(messages)];
}

export async function addConfigMap(harness: AgentHarness, name: string, data: Texts, more: object = {}): Promise<void> {
  await harness.kube.user.create(configMaps("default"), { metadata: { name, namespace: "default" }, data, ...more });
  await settlePromises();
}

export async function changeConfigMap(harness: AgentHarness, name: string, data: Texts): Promise<void> {
  await harness.kube.user.replace(configMaps("default"), { metadata: { name, namespace: "default" }, data });
}

const secretOf = (name: string, data: Texts) => ({
  metadata: { name, namespace: "default" },
  data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString("base64")])),
});

export async function addSecret(harness: AgentHarness, name: string, data: Texts): Promise<void> {
  await harness.kube.user.create(secrets("default"), secretOf(name, data));
  await settlePromises();
}

export async function changeSecret(harness: AgentHarness, name: string, data: Texts): Promise<void> {
  await harness.kube.user.replace(secrets("default"), secretOf(name, data));
}

/** Creates a claim with the volume that is bound to it, as the controller leaves them. */
export async function addBoundClaim(
  harness: AgentHarness,
  name: string,
  spec: PersistentVolumeSpec,
  metadata: object = {},
): Promise<void> {
  const { user } = harness.kube;
  const claim = await user.create(persistentVolumeClaims("default"), {
    metadata: { name, namespace: "default", ...metadata },
    spec: { volumeName: `pv-${name}` },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name, uid: claim.metadata.uid ?? "" };
  await user.create(persistentVolumes, { metadata: { name: `pv-${name}` }, spec: { ...spec, claimRef } });
  await settlePromises();
}

/** Makes a folder of the node with a file `data`. */
export async function addDisk({ disk }: AgentHarness, path: string, text = "precious"): Promise<void> {
  await disk.at("/").makeFolder(path, 0o755);
  await disk.at("/").write(`${path}/data`, text, 0o644);
}

/** Collects the requests for service account tokens that the node sends from now on. */
export function collectTokenRequests({ kube }: AgentHarness, requests: TokenRequest[]): void {
  const { requestToken } = kube;
  kube.requestToken = async (namespace, account, request, options) => {
    requests.push(request);
    return await requestToken(namespace, account, request, options);
  };
}

/** The environment of the newest instance of a container. */
export function environmentOf({ runtime }: AgentHarness, container = "a"): Texts {
  const found = [...runtime.containers.values()].findLast(({ config }) => config.metadata?.name === container);
  const variables = found?.config.envs ?? [];
  return Object.fromEntries(variables.map(({ key, value }) => [key, new TextDecoder().decode(value)]));
}
