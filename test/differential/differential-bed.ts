import { mkdir, mkdtemp, readFile, readlink, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import type { KubeClient } from "../../kube/client.ts";
import { nodes, services } from "../../kube/resource.ts";
import { ListPodSandboxRequest, ListPodSandboxResponse } from "../../proto/cri/gen/api.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { type Containerd, startContainerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { startRegistry } from "../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage, importImages } from "../bed/images/images.ts";
import { type BuiltImage, copyImage } from "../bed/images/oci-layout.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { startNodeWithoutAgent } from "../e2e/node.ts";
import { createAdminClient } from "../upstream/admin-client.ts";
import { type ControlPlane, startControlPlane } from "../upstream/control-plane.ts";
import { startReferenceKubelet } from "../upstream/reference-kubelet.ts";
import { waitForServiceAccount } from "../upstream/service-account.ts";
import { containerdRelease, dns, objectsOfNamespace, runtimeClasses } from "./bed-settings.ts";
import { objectsOfVolumes } from "./cases/objects-of-volumes.ts";
import { HOST_DISKS, NAMED_USER_IMAGE, NUMERIC_USER_IMAGE, PRIVATE_REGISTRY, REGISTRY } from "./cases/pod-case.ts";
import type { Placeholders } from "./comparison-rows.ts";

/** One of the nodes that run the same pods, with its own namespace. */
export interface Side {
  readonly nodeName: string;
  readonly namespace: string;
  /** `HOST:PORT` of an anonymous registry for this side's runtime. */
  readonly registry: string;
  /** `HOST:PORT` of a registry that requires credentials. */
  readonly privateRegistry: string;
  /** An image that is only in the anonymous registry, as `HOST:PORT/NAME@DIGEST`. */
  readonly imageByDigest: string;
  /** A folder of its own for hostPath volumes. */
  readonly hostFolder: string;
  /** The socket of its container runtime. */
  readonly hostSocket: string;
  /** The folder of its static pods. */
  readonly manifests: string;
  /** The names and addresses that differ between the sides, with their common placeholders. */
  readonly names: Placeholders;
  /** Kills the pause process of a pod's sandbox, by the pod's uid, as the kernel may do. */
  killSandbox(podUid: string): Promise<void>;
  /** Reads the log of its container runtime, which names all that it has created. */
  readRuntimeLog(): Promise<string>;
  end(): Promise<void>;
}

export interface DifferentialBed {
  readonly plane: ControlPlane;
  /** An administrator's client of the API server. */
  readonly kube: KubeClient;
  /** In the order of the agents. */
  readonly sides: readonly Side[];
  /** Stops everything and removes all files, processes and network links. */
  end(): Promise<void>;
}

/** Images that are in the registries but on no node. */
const anonymousImages = ["berth.test/always:1", "berth.test/once:1"];
const privateImages = ["private", "older", "second", "kept"].map((name) => `berth.test/${name}:1`);
const registryLogin = { username: "captain", password: "hunter2-let-me-in" };
const letters = ["a", "b", "c"] as const;
type Letter = (typeof letters)[number];

/** A node's allocatable memory: the machine's, less the default `memory.available<100Mi` of evictionHard. */
const allocatableMemory = totalmem() - 100 * 2 ** 20;

const nodeNameOf = (letter: Letter) => `node-${letter}`;
const namespaceOf = (letter: Letter) => `space-${letter}`;

/** Starts a control plane with a node for each agent, at most three, and returns once all nodes are Ready. */
export async function startDifferentialBed(
  agents: readonly ("kubelet" | "berth")[],
  print: (line: string) => void,
): Promise<DifferentialBed> {
  const folder = await mkdtemp(join(tmpdir(), "berth-differential-"));
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), print });
  const kube = createAdminClient(plane, "differential");
  const sides: Side[] = [];
  const end = async () => {
    await Promise.all(sides.map((side) => side.end()));
    kube.close();
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await createClusterObjects(plane, kube);
    const starts = agents.map((agent, index) => {
      const letter = letters[index] ?? "c";
      return agent === "kubelet"
        ? startKubeletSide(plane, kube, letter, join(folder, letter))
        : startBerthSide(plane, kube, letter);
    });
    sides.push(...(await Promise.all(starts)));
    await Promise.all(sides.map(({ nodeName }) => waitUntilNodeReady(kube, nodeName)));
    return { plane, kube, sides, end };
  } catch (error) {
    await end();
    throw error;
  }
}

/**
 * Creates the API objects that pods refer to. This happens before the nodes start, so that they read them before the
 * first pod.
 */
async function createClusterObjects(plane: ControlPlane, kube: KubeClient): Promise<void> {
  const objects = letters.flatMap((letter) => objectsOfNamespace(namespaceOf(letter)));
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: [...objects, ...runtimeClasses] });
  await plane.kubectl(["apply", "--filename=-"], { input });
  // Not applied: an annotation with all of a large object would be larger than an annotation may be.
  const created = letters.flatMap((letter) =>
    objectsOfVolumes.map((object) => ({ ...object, metadata: { ...object.metadata, namespace: namespaceOf(letter) } })),
  );
  await plane.kubectl(["create", "--filename=-"], {
    input: JSON.stringify({ apiVersion: "v1", kind: "List", items: created }),
  });
  for (const letter of letters) await waitForServiceAccount(plane, namespaceOf(letter));
  await kube.list(services(), {});
}

async function startKubeletSide(
  plane: ControlPlane,
  kube: KubeClient,
  letter: Letter,
  stateDir: string,
): Promise<Side> {
  const containerd = await startContainerd({ stateDir, version: containerdRelease });
  const { manifests, kubeletRoot } = bedPaths(stateDir);
  try {
    await importImages(containerd);
    await mkdir(manifests);
    const supply = await supplyImages(plane, letter, containerd);
    const kubelet = await startReferenceKubelet({
      controlPlane: plane,
      nodeName: nodeNameOf(letter),
      endpoint: containerd.endpoint,
      stateDir,
      configuration: { ...dns, staticPodPath: manifests },
    });
    const end = async () => {
      await kubelet.kill9();
      await supply.stop();
      await containerd.stop();
    };
    return await createSide(kube, letter, { ...supply, containerd, stateDir, root: kubeletRoot, manifests, end });
  } catch (error) {
    await containerd.stop();
    throw error;
  }
}

async function startBerthSide(plane: ControlPlane, kube: KubeClient, letter: Letter): Promise<Side> {
  const nodeName = nodeNameOf(letter);
  const cluster = { kubeconfig: await plane.nodeKubeconfig(nodeName), nodeName };
  const node = await startNodeWithoutAgent({ cluster, version: containerdRelease });
  try {
    const supply = await supplyImages(plane, letter, node.containerd);
    await node.startAgent(dns);
    const end = async () => {
      await supply.stop();
      await node.tearDown();
    };
    const { containerd, folder: stateDir } = node;
    const { agentRoot: root, manifests } = node.paths;
    return await createSide(kube, letter, { ...supply, containerd, stateDir, root, manifests, end });
  } catch (error) {
    await node.tearDown();
    throw error;
  }
}

/** Provides one side's additional images: on the node, in the anonymous registry and in the private one. */
async function supplyImages(plane: ControlPlane, letter: Letter, containerd: Containerd) {
  const built = await buildTestImages();
  const busybox = built.find(({ name }) => name === busyboxImage);
  if (busybox === undefined) throw new Error(`${busyboxImage} is not among the images of the test bed`);
  const imported = [
    copyImage(busybox, NAMED_USER_IMAGE, "sailor"),
    copyImage(busybox, NUMERIC_USER_IMAGE, "4242:50000"),
  ];
  await importImages(containerd, imported);
  const byDigest = copyImage(busybox, "berth.test/by-digest:1");
  const anonymous = [...anonymousImages.map((name) => copyImage(busybox, name)), byDigest];
  const registry = await startRegistry(containerd);
  for (const image of anonymous) await registry.push(image);
  const hub = await startRegistry(containerd, registryLogin);
  const withLogin = privateImages.map((name) => copyImage(busybox, name));
  for (const image of withLogin) await hub.push(image);
  const items = pullSecrets(namespaceOf(letter), hub.host);
  await plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) });
  return {
    registry: registry.host,
    privateRegistry: hub.host,
    imageByDigest: `${registry.host}/berth.test/by-digest@${byDigest.manifest.digest}`,
    digests: [...built, ...imported, ...anonymous, ...withLogin].flatMap(digestNames),
    async stop() {
      await hub.stop();
      await registry.stop();
    },
  };
}

/** Names for an image's digests, so that a status shows which image it is about. */
const digestNames = ({ name, config, manifest }: BuiltImage): Placeholders => [
  [config.digest.replace("sha256:", ""), `CONFIG-OF ${name}`],
  [manifest.digest.replace("sha256:", ""), `MANIFEST-OF ${name}`],
];

/** Pull Secrets with the valid credentials as dockerconfigjson and as dockercfg, and one with a wrong password. */
function pullSecrets(namespace: string, host: string): readonly object[] {
  const authOf = (password: string) => ({
    [host]: { auth: Buffer.from(`${registryLogin.username}:${password}`).toString("base64") },
  });
  const secret = (name: string, type: string, key: string, content: object) => ({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name, namespace }, type: `kubernetes.io/${type}` },
    stringData: { [key]: JSON.stringify(content) },
  });
  const dockerConfigJson = ["dockerconfigjson", ".dockerconfigjson"] as const;
  return [
    secret("private", ...dockerConfigJson, { auths: authOf(registryLogin.password) }),
    secret("private-older", "dockercfg", ".dockercfg", authOf(registryLogin.password)),
    secret("private-wrong", ...dockerConfigJson, { auths: authOf("hunter2-guess") }),
  ];
}

async function killSandbox({ endpoint, ctr }: Containerd, podUid: string): Promise<void> {
  const filter = { labelSelector: { [podUidLabel]: podUid } };
  const request = [ListPodSandboxRequest, ListPodSandboxRequest.fromPartial({ filter })] as const;
  const { items } = await callCri(endpoint, "RuntimeService/ListPodSandbox", request, ListPodSandboxResponse);
  for (const { id } of items) await ctr(["-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id]);
}

async function createSide(
  kube: KubeClient,
  letter: Letter,
  {
    containerd,
    stateDir,
    root,
    digests,
    ...own
  }: Pick<Side, "registry" | "privateRegistry" | "imageByDigest" | "manifests" | "end"> & {
    readonly digests: Placeholders;
    readonly containerd: Containerd;
    readonly stateDir: string;
    readonly root: string;
  },
): Promise<Side> {
  const { registry, privateRegistry, manifests } = own;
  const hostFolder = join(stateDir, "host");
  await mkdir(join(hostFolder, "folder"), { recursive: true });
  await writeFile(join(hostFolder, "file"), "of the host\n");
  for (const disk of HOST_DISKS) {
    await mkdir(join(hostFolder, disk, "deep"), { recursive: true, mode: 0o755 });
    await writeFile(join(hostFolder, disk, "deep/file"), `of ${disk}\n`, { mode: 0o640 });
  }
  const [nodeName, namespace] = [nodeNameOf(letter), namespaceOf(letter)];
  const { items } = await kube.list(services(namespace), {});
  const addresses = items.map(({ metadata, spec }) => [spec?.clusterIP ?? "", `IP-OF-${metadata.name}`] as const);
  const names: Placeholders = [
    [nodeName, "NODE"],
    [namespace, "NAMESPACE"],
    [registry, REGISTRY],
    [privateRegistry, PRIVATE_REGISTRY],
    [root, "ROOT"],
    [manifests, "MANIFESTS"],
    [stateDir, "STATE"],
    [String(allocatableMemory), "NODE-MEMORY"],
    [String(Math.ceil(allocatableMemory / 2 ** 20)), "NODE-MEMORY-MI"],
    [`${allocatableMemory / 2 ** 10}k`, "NODE-MEMORY-K"],
    ...(await hostNamespaces()),
    ...digests,
    ...addresses.filter(([address]) => address !== "None"),
  ];
  const killPodSandbox = (podUid: string) => killSandbox(containerd, podUid);
  const hostSocket = containerd.endpoint.replace(/^unix:\/\//, "");
  const readRuntimeLog = () => readFile(containerd.logFile, "utf8");
  return { ...own, nodeName, namespace, hostFolder, hostSocket, names, killSandbox: killPodSandbox, readRuntimeLog };
}

/** The host's namespaces, as a container that shares them sees them. */
async function hostNamespaces(): Promise<Placeholders> {
  const kinds = ["net", "pid", "ipc", "uts"];
  return await Promise.all(kinds.map(async (kind) => [await readlink(`/proc/self/ns/${kind}`), "HOST"] as const));
}

async function waitUntilNodeReady(kube: KubeClient, nodeName: string): Promise<void> {
  await pollUntil(`the node ${nodeName} to be Ready`, 60_000, async () => {
    // The node does not exist at first; the timeout reports any other failure.
    const node = await kube.get(nodes, nodeName).catch(() => undefined);
    return node?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  });
}

/** Renames a manifest into the side's static pod folder; undefined removes it. */
export async function putManifest({ manifests }: Side, name: string, content: string | undefined): Promise<void> {
  const path = join(manifests, `${name}.json`);
  if (content === undefined) return await rm(path);
  // The kubelet ignores file names that start with a dot.
  const hiddenPath = join(manifests, `.${name}.json`);
  await writeFile(hiddenPath, content);
  await rename(hiddenPath, path);
}
