import { mkdir, mkdtemp, readlink, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Kube } from "../../kube/client.ts";
import { nodes, services } from "../../kube/resource.ts";
import { ListPodSandboxRequest, ListPodSandboxResponse } from "../../proto/cri/gen/api.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { type Containerd, startContainerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { startRegistry } from "../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage, importImages } from "../bed/images/images.ts";
import { copyImage } from "../bed/images/oci-layout.ts";
import { until } from "../bed/poll-until.ts";
import { startNodeWithoutAgent } from "../e2e/node.ts";
import { administrator } from "../upstream/admin-client.ts";
import { type ControlPlane, startControlPlane } from "../upstream/control-plane.ts";
import { startReferenceKubelet } from "../upstream/reference-kubelet.ts";
import { OF_NUMBER, OF_SAILOR, PRIVATE_REGISTRY, REGISTRY } from "./cases/pod-case.ts";
import type { Names } from "./comparison-rows.ts";

/** One of the three nodes that run the same pods, each in a namespace of its own. */
export interface Side {
  readonly nodeName: string;
  readonly namespace: string;
  /** `HOST:PORT` of a registry that this side's runtime may pull from. */
  readonly registry: string;
  /** The same of one that asks who its runtime is. */
  readonly privateRegistry: string;
  /** The folder of its static pods. */
  readonly manifests: string;
  /** What it calls otherwise than the others. */
  readonly names: Names;
  /** Kills what holds the sandbox of a pod, by its uid, as the kernel may do. */
  endSandbox(podUid: string): Promise<void>;
  end(): Promise<void>;
}

export interface Bed {
  readonly plane: ControlPlane;
  /** The API server, to an administrator. */
  readonly kube: Kube;
  /** The kubelet, the kubelet again, and Berth. */
  readonly sides: readonly [Side, Side, Side];
  /** Ends everything and removes every trace. */
  end(): Promise<void>;
}

/** What the pods of every node are told of the cluster's DNS; nobody listens there. */
const dns = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };
/** The images that are in the registries, and on no node. */
const pulled = ["berth.test/always:1", "berth.test/once:1"];
const guarded = ["private", "older", "second", "kept"].map((name) => `berth.test/${name}:1`);
const login = { username: "captain", password: "hunter2-let-me-in" };
const letters = ["a", "b", "c"] as const;
type Letter = (typeof letters)[number];

const nodeNameOf = (letter: Letter) => `node-${letter}`;
const namespaceOf = (letter: Letter) => `space-${letter}`;

/** Returns once all three nodes are Ready. */
export async function startBed(say: (line: string) => void): Promise<Bed> {
  const folder = await mkdtemp(join(tmpdir(), "berth-differential-"));
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), say });
  const kube = administrator(plane, "differential");
  const sides: Side[] = [];
  const end = async () => {
    await Promise.all(sides.map((side) => side.end()));
    kube.close();
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await furnish(plane, kube);
    const [a, b, c] = await Promise.all([
      startKubeletSide(plane, kube, "a", join(folder, "a")),
      startKubeletSide(plane, kube, "b", join(folder, "b")),
      startBerthSide(plane, kube, "c"),
    ]);
    sides.push(a, b, c);
    await Promise.all(sides.map(({ nodeName }) => becomesReady(kube, nodeName)));
    return { plane, kube, sides: [a, b, c], end };
  } catch (error) {
    await end();
    throw error;
  }
}

/** What pods find in their cluster: it is there before the nodes are, so that they have read it before the first pod. */
async function furnish(plane: ControlPlane, kube: Kube): Promise<void> {
  const objects = letters.flatMap((letter) => {
    const namespace = namespaceOf(letter);
    return [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
      service(namespace, "back-end", {
        ports: [
          { name: "http", port: 80, targetPort: 8080 },
          { name: "dns-udp", port: 53, protocol: "UDP" },
        ],
      }),
      service(namespace, "plain", { ports: [{ port: 9 }] }),
      service(namespace, "headless", { clusterIP: "None", ports: [{ port: 9 }] }),
      {
        ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace } },
        stringData: { user: "admin", pass: "pa$$(user)", "tls.key": "of login" },
      },
      {
        ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "site", namespace } },
        data: { user: "guest", colour: "blue", zone: "$(colour)" },
      },
    ];
  });
  const classes = [
    { ...runtimeClass("heavy", "runc"), overhead: { podFixed: { cpu: "10m", memory: "8Mi" } } },
    runtimeClass("nowhere", "no-such-handler"),
  ];
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: [...objects, ...classes] });
  await plane.kubectl(["apply", "--filename=-"], { input });
  // Without its account a namespace takes no pods.
  for (const letter of letters)
    await until("the account of a namespace", 30_000, () =>
      plane.kubectl(["get", "serviceaccount", "default", `--namespace=${namespaceOf(letter)}`]).then(
        () => true,
        () => false,
      ),
    );
  await kube.list(services(), {});
}

const service = (namespace: string, name: string, spec: object) => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace },
  spec: { selector: { app: name }, ...spec },
});
const runtimeClass = (name: string, handler: string) => ({
  apiVersion: "node.k8s.io/v1",
  kind: "RuntimeClass",
  metadata: { name },
  handler,
});

async function startKubeletSide(plane: ControlPlane, kube: Kube, letter: Letter, stateDir: string): Promise<Side> {
  const containerd = await startContainerd({ stateDir });
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
    return await sideOf(kube, letter, { ...supply, containerd, stateDir, root: kubeletRoot, manifests, end });
  } catch (error) {
    await containerd.stop();
    throw error;
  }
}

async function startBerthSide(plane: ControlPlane, kube: Kube, letter: Letter): Promise<Side> {
  const nodeName = nodeNameOf(letter);
  const node = await startNodeWithoutAgent({ cluster: { kubeconfig: await plane.nodeKubeconfig(nodeName), nodeName } });
  try {
    const supply = await supplyImages(plane, letter, node.containerd);
    await node.startAgent(dns);
    const end = async () => {
      await supply.stop();
      await node.end();
    };
    const { containerd, folder: stateDir } = node;
    const { agentRoot: root, manifests } = node.paths;
    return await sideOf(kube, letter, { ...supply, containerd, stateDir, root, manifests, end });
  } catch (error) {
    await node.end();
    throw error;
  }
}

/** What pods of one side can have beside the images of every test bed: on the node, and in registries for all and for some. */
async function supplyImages(plane: ControlPlane, letter: Letter, containerd: Containerd) {
  const busybox = (await buildTestImages()).find(({ name }) => name === busyboxImage);
  if (busybox === undefined) throw new Error(`${busyboxImage} is not among the images of the test bed`);
  await importImages(containerd, [
    copyImage(busybox, OF_SAILOR, "sailor"),
    copyImage(busybox, OF_NUMBER, "4242:50000"),
  ]);
  const registry = await startRegistry(containerd);
  for (const name of pulled) await registry.push(copyImage(busybox, name));
  const hub = await startRegistry(containerd, login);
  for (const name of guarded) await hub.push(copyImage(busybox, name));
  const items = pullSecrets(namespaceOf(letter), hub.host);
  await plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) });
  return {
    registry: registry.host,
    privateRegistry: hub.host,
    async stop() {
      await hub.stop();
      await registry.stop();
    },
  };
}

/** The right login in the form of today and in that of old, and a wrong one. */
function pullSecrets(namespace: string, host: string): readonly object[] {
  const authOf = (password: string) => ({
    [host]: { auth: Buffer.from(`${login.username}:${password}`).toString("base64") },
  });
  const secret = (name: string, type: string, key: string, content: object) => ({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name, namespace }, type: `kubernetes.io/${type}` },
    stringData: { [key]: JSON.stringify(content) },
  });
  const today = ["dockerconfigjson", ".dockerconfigjson"] as const;
  return [
    secret("private", ...today, { auths: authOf(login.password) }),
    secret("private-older", "dockercfg", ".dockercfg", authOf(login.password)),
    secret("private-wrong", ...today, { auths: authOf("hunter2-guess") }),
  ];
}

async function endSandbox({ endpoint, ctr }: Containerd, podUid: string): Promise<void> {
  const filter = { labelSelector: { [podUidLabel]: podUid } };
  const request = [ListPodSandboxRequest, ListPodSandboxRequest.fromPartial({ filter })] as const;
  const { items } = await callCri(endpoint, "RuntimeService/ListPodSandbox", request, ListPodSandboxResponse);
  for (const { id } of items) await ctr(["-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id]);
}

async function sideOf(
  kube: Kube,
  letter: Letter,
  {
    containerd,
    stateDir,
    root,
    ...own
  }: Pick<Side, "registry" | "privateRegistry" | "manifests" | "end"> & {
    readonly containerd: Containerd;
    readonly stateDir: string;
    readonly root: string;
  },
): Promise<Side> {
  const { registry, privateRegistry, manifests, end } = own;
  const [nodeName, namespace] = [nodeNameOf(letter), namespaceOf(letter)];
  const { items } = await kube.list(services(namespace), {});
  const addresses = items.map(({ metadata, spec }) => [spec?.clusterIP ?? "", `IP-OF-${metadata.name}`] as const);
  const names: Names = [
    [nodeName, "NODE"],
    [namespace, "NAMESPACE"],
    [registry, REGISTRY],
    [privateRegistry, PRIVATE_REGISTRY],
    [root, "ROOT"],
    [manifests, "MANIFESTS"],
    [stateDir, "STATE"],
    ...(await hostNamespaces()),
    ...addresses.filter(([address]) => address !== "None"),
  ];
  const sandboxEnds = (podUid: string) => endSandbox(containerd, podUid);
  return { nodeName, namespace, registry, privateRegistry, manifests, names, endSandbox: sandboxEnds, end };
}

/** What a container that shares one with the host sees of it. */
async function hostNamespaces(): Promise<Names> {
  const kinds = ["net", "pid", "ipc", "uts"];
  return await Promise.all(kinds.map(async (kind) => [await readlink(`/proc/self/ns/${kind}`), "HOST"] as const));
}

async function becomesReady(kube: Kube, nodeName: string): Promise<void> {
  await until(`the node ${nodeName} to be Ready`, 60_000, async () => {
    const node = await kube.get(nodes, nodeName).catch(() => undefined);
    return node?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  });
}

/** Puts a manifest into the folder of static pods, whole at once; undefined takes it away. */
export async function putManifest({ manifests }: Side, name: string, content: string | undefined): Promise<void> {
  const path = join(manifests, `${name}.json`);
  if (content === undefined) return await rm(path);
  // A name that begins with a dot is no manifest.
  const unseen = join(manifests, `.${name}.json`);
  await writeFile(unseen, content);
  await rename(unseen, path);
}
