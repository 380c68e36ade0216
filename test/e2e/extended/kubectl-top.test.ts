// kubectl top through the real metrics-server, which the API server reaches as an aggregated API.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Daemon, startDaemon, waitUntilReady } from "../../upstream/daemon.ts";
import { ensureMetricsServer } from "../../upstream/metrics-server.ts";
import { createCertificateAuthority } from "../../upstream/pki.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { busyPod } from "../cluster/busy-pod.ts";
import { type ClusterNode, startClusterNode } from "../cluster/node.ts";
import { freePort } from "../free-port.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("kubectl top with metrics-server");
const NAME = "metrics-server";
const HELD_MB = 32;

describe.skipIf(skip !== undefined)("kubectl top", () => {
  let folder: string;
  let cluster: ClusterNode;
  let metricsServer: Daemon;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-top-"));
    cluster = await startClusterNode(undefined, {}, { "kube-apiserver": await aggregationFlags(folder) });
    await cluster.create([busyPod({ cpuLimit: "100m", heldMb: HELD_MB })]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=180s");
    metricsServer = await startMetricsServer(cluster, folder);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await metricsServer?.end("SIGKILL");
    await cluster?.tearDown();
    await rm(folder, { recursive: true });
  });

  for (const version of ["1.36", "1.32"] as const) {
    const top = (...args: readonly string[]) => cluster.plane.kubectl(["top", ...args, "--no-headers"], { version });

    test(`of version ${version} shows the CPU and memory that each container uses`, async () => {
      const rows = (await top("pod", "busy", "--containers")).split("\n").map((line) => line.trim().split(/\s+/));
      const usage = Object.fromEntries(rows.map(([, container, cpu, memory]) => [container, { cpu, memory }]));
      expect(Object.keys(usage).toSorted()).toEqual(["calculates", "remembers"]);
      // It would take a whole processor, and has a limit.
      expect(Number.parseInt(usage["calculates"]?.cpu ?? "", 10)).toBeWithin(20, 131);
      expect(usage["calculates"]?.cpu).toEndWith("m");
      expect(Number.parseInt(usage["remembers"]?.memory ?? "", 10)).toBeWithin(HELD_MB, 3 * HELD_MB);
      expect(usage["remembers"]?.memory).toEndWith("Mi");
    });

    test(`of version ${version} shows the CPU and memory of the node`, async () => {
      const [name, cpu, cpuPercent, memory, memoryPercent] = (await top("node")).trim().split(/\s+/);
      expect(name).toBe(cluster.node.name);
      const figures = [cpu, cpuPercent, memory, memoryPercent].map((text) => Number.parseInt(text ?? "", 10));
      for (const figure of figures) expect(figure).toBeGreaterThan(0);
      expect(memory).toEndWith("Mi");
    });
  }
});

/** The API server needs a certificate of its own with which it asks other API servers in the name of its users. */
async function aggregationFlags(folder: string): Promise<readonly string[]> {
  const authority = createCertificateAuthority("front-proxy");
  const { cert, key } = authority.issue({ commonName: "front-proxy-client" });
  const files = { ca: authority.cert, cert, key };
  for (const [name, content] of Object.entries(files))
    await writeFile(join(folder, `front-proxy.${name}`), content, { mode: 0o600 });
  return [
    `--requestheader-client-ca-file=${join(folder, "front-proxy.ca")}`,
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    `--proxy-client-cert-file=${join(folder, "front-proxy.cert")}`,
    `--proxy-client-key-file=${join(folder, "front-proxy.key")}`,
  ];
}

/** Starts metrics-server with the rights of its own manifests, and returns when it has two scrapes of the node. */
async function startMetricsServer({ plane, kubectl }: ClusterNode, folder: string): Promise<Daemon> {
  const program = await ensureMetricsServer(console.log);
  const port = await freePort();
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: metricsServerObjects(port) });
  await plane.kubectl(["create", "--filename=-"], { input });
  const token = (await kubectl("create", "token", NAME, "--namespace=kube-system")).trim();
  const kubeconfig = await plane.kubeconfig(NAME, { token });
  const flags = [
    ...["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map((flag) => `--${flag}=${kubeconfig}`),
    ...["--bind-address=127.0.0.1", `--secure-port=${port}`, `--cert-dir=${folder}`, "--metric-resolution=10s"],
    // The nodes of the test bed sign their certificates themselves.
    ...["--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP"],
    "--kubelet-request-timeout=5s",
  ];
  const daemon = startDaemon(program, flags, join(folder, `${NAME}.log`));
  await waitUntilReady(daemon, `https://127.0.0.1:${port}/readyz`, { rejectUnauthorized: false });
  await kubectl("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=180s");
  return daemon;
}

const RBAC = "rbac.authorization.k8s.io";

function metricsServerObjects(port: number): readonly object[] {
  const metadata = { name: NAME, namespace: "kube-system" };
  const rules = [
    { apiGroups: [""], resources: ["nodes/metrics"], verbs: ["get"] },
    { apiGroups: [""], resources: ["pods", "nodes"], verbs: ["get", "list", "watch"] },
  ];
  const binding = (kind: string, name: string, role: { readonly kind: string; readonly name: string }) => ({
    ...{ apiVersion: `${RBAC}/v1`, kind, metadata: { ...metadata, name } },
    roleRef: { apiGroup: RBAC, ...role },
    subjects: [{ kind: "ServiceAccount", ...metadata }],
  });
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    { apiVersion: `${RBAC}/v1`, kind: "ClusterRole", metadata: { name: NAME }, rules },
    binding("ClusterRoleBinding", NAME, { kind: "ClusterRole", name: NAME }),
    binding("ClusterRoleBinding", `${NAME}-delegator`, { kind: "ClusterRole", name: "system:auth-delegator" }),
    binding("RoleBinding", NAME, { kind: "Role", name: "extension-apiserver-authentication-reader" }),
    // No address of a Service leads to this machine, but a name does.
    { apiVersion: "v1", kind: "Service", metadata, spec: { type: "ExternalName", externalName: "127.0.0.1" } },
    {
      ...{ apiVersion: "apiregistration.k8s.io/v1", kind: "APIService", metadata: { name: "v1beta1.metrics.k8s.io" } },
      spec: {
        ...{ group: "metrics.k8s.io", version: "v1beta1", groupPriorityMinimum: 100, versionPriority: 100 },
        ...{ service: { ...metadata, port }, insecureSkipTLSVerify: true },
      },
    },
  ];
}
