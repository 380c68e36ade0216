import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Container, HTTPGetAction, PodSpec, Volume, VolumeMount } from "../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";
import { podOf } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
/** A folder that the test shares with the server's container. */
let shared = "";
beforeAll(async () => {
  shared = await mkdtemp(join(tmpdir(), "berth-https-"));
  const { cert, key } = createCertificateAuthority("unknown").issue({ commonName: "other.example" });
  await writeFile(join(shared, "cert.pem"), cert);
  await writeFile(join(shared, "key.pem"), key);
  await copyFile(join(import.meta.dirname, "https-server.ts"), join(shared, "https-server.ts"));
  node = await startNode();
});
afterAll(async () => {
  await node.tearDown();
  await rm(shared, { recursive: true });
});

/** What a container of the busybox image needs of this machine to run Bun. */
const mounts = () =>
  [
    { name: "shared", path: shared, mountPath: "/shared" },
    { name: "bun", path: process.execPath, mountPath: "/bun", readOnly: true },
    { name: "lib", path: "/lib", mountPath: "/lib", readOnly: true },
    { name: "lib64", path: "/lib64", mountPath: "/lib64", readOnly: true },
  ].filter(({ path }) => existsSync(path));
const volumes = (): readonly Volume[] => mounts().map(({ name, path }) => ({ name, hostPath: { path } }));
const volumeMounts = (): readonly VolumeMount[] => mounts().map(({ path: _, ...mount }) => mount);
const spec = (): Partial<PodSpec> => ({ volumes: volumes() });
const server = (): Partial<Container> => ({
  command: ["catatonit", "--", "/bun", "/shared/https-server.ts"],
  volumeMounts: volumeMounts(),
});
const secure = (port: number, path: string): { readonly httpGet: HTTPGetAction } => ({
  httpGet: { scheme: "HTTPS", port, path },
});
/** Tolerates a busy machine, which starts a server late and answers slowly. */
const tolerant = { periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 60 };
const requests = async () => (await readFile(join(shared, "requests"), "utf8")).trimEnd().split("\n");
const waitUntilReady = (name: string) => node.waitForPod(name, "it is ready", ({ ready }) => ready === "1/1");

test("HTTPS probes speak HTTP/2 where the server selects it, follow a redirect to HTTPS, and accept any certificate", async () => {
  const container: Partial<Container> = {
    ...server(),
    startupProbe: { ...tolerant, ...secure(8444, "/started") },
    readinessProbe: { ...tolerant, ...secure(8443, "/ready"), failureThreshold: 1 },
    livenessProbe: { ...tolerant, httpGet: { port: 8080, path: "/alive" }, failureThreshold: 1 },
  };
  await node.putManifest(podOf("secure", container, spec()));
  const { restarts } = await waitUntilReady("secure");
  expect(restarts).toBe(0);
  await pollUntil("the redirected probe", 20_000, async () =>
    (await requests()).includes("HTTPS/2.0 /alive kube-probe"),
  );
  expect([...new Set(await requests())].toSorted()).toEqual([
    "HTTP/1.1 /alive",
    "HTTPS/1.1 /started kube-probe",
    "HTTPS/2.0 /alive kube-probe",
    "HTTPS/2.0 /ready kube-probe",
  ]);

  await writeFile(join(shared, "ready.ill"), "");
  const unready = await node.waitForPod("secure", "it is not ready any more", ({ ready }) => ready === "0/1");
  expect(unready.restarts).toBe(0);
  await rm(join(shared, "ready.ill"));
  await waitUntilReady("secure");

  await writeFile(join(shared, "alive.ill"), "");
  await node.waitForPod("secure", "it was restarted", (pod) => pod.restarts === 1);
  await node.waitForLogLine("secure-berth", "Container main failed liveness probe, will be restarted");
  await rm(join(shared, "alive.ill"));
  expect((await waitUntilReady("secure")).restarts).toBe(1);
});

test("HTTPS hooks reach a server of another pod", async () => {
  await node.putManifest(
    podOf("server", { ...server(), readinessProbe: { ...tolerant, ...secure(8443, "/ready") } }, spec()),
  );
  const { ip: host = "" } = await waitUntilReady("server");
  const hook = (port: number, path: string) => ({ httpGet: { ...secure(port, path).httpGet, host } });
  const lifecycle = { postStart: hook(8443, "/after-start"), preStop: hook(8444, "/before-stop") };
  await node.putManifest(podOf("asking", { lifecycle }));
  const [{ restarts } = { restarts: -1 }] = await node.waitUntilRunning("asking");
  expect(restarts).toBe(0);
  await node.removeFile("asking.yaml");
  await pollUntil("the pod to be gone", 20_000, async () =>
    (await node.pods()).every(({ name }) => name !== "asking-berth"),
  );
  expect((await requests()).filter((line) => line.includes("kube-lifecycle"))).toEqual([
    "HTTPS/2.0 /after-start kube-lifecycle",
    "HTTPS/1.1 /before-stop kube-lifecycle",
  ]);
  const lines = linesContaining(await node.log(), "asking-berth");
  expect(lines.filter((line) => / (warn|error) /.test(line))).toEqual([]);
});
