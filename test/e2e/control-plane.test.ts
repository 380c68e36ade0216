import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { listRecords } from "../bed/cleanup/bed-record.ts";
import { describeBedResources, findBedResources } from "../bed/cleanup/bed-resources.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { resetBeds } from "../bed/reset.ts";
import { type ControlPlane, type KubectlOptions, startControlPlane } from "../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../upstream/programs.ts";

const skip = skipWithoutPrograms("the real control plane");
const REFUSED = /connection refused|The connection to the server/;

let folder = "";
const makeFolder = async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-control-plane-test-"));
};

/** The running processes with a path below `place` in their arguments. */
const processesOf = async (place: string) =>
  (await listProcesses()).map(({ argv }) => argv.join(" ")).filter((line) => line.includes(`${place}/`));

describe.skipIf(skip !== undefined)("a control plane", () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    await makeFolder();
    plane = await startControlPlane({ stateDir: folder, print: console.log });
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await plane?.stop();
    const files = await readdir(folder, { recursive: true });
    await rm(folder, { recursive: true });
    expect(files.toSorted()).toEqual([
      "etcd.log",
      "kube-apiserver.log",
      "kube-controller-manager.log",
      "kube-scheduler.log",
    ]);
    expect((await listRecords()).filter(({ stateDir }) => stateDir === folder)).toEqual([]);
    expect(await processesOf(folder)).toEqual([]);
  }, 600_000);

  /** The output of kubectl, or its error output. */
  const kubectlOutput = (args: readonly string[], options?: KubectlOptions) =>
    plane.kubectl(args, options).catch((error: Error & { stderr?: string }) => error.stderr ?? error.message);
  const makeSecret = (name: string) =>
    plane.kubectl(["create", "secret", "generic", name, "--from-literal=word=hidden"]);

  test.each(["1.32", "1.36"] as const)(
    "answers kubectl %s",
    async (version) => {
      expect(await plane.kubectl(["get", "--raw", "/readyz"], { version })).toBe("ok");
      const versions = JSON.parse(await plane.kubectl(["version", "--output=json"], { version })) as {
        readonly clientVersion: { readonly major: string; readonly minor: string };
        readonly serverVersion: { readonly minor: string };
      };
      expect(`${versions.clientVersion.major}.${versions.clientVersion.minor}`).toBe(version);
      expect(versions.serverVersion.minor).toBe("36");
    },
    240_000,
  );

  test("creates the default service account of a new namespace", async () => {
    await plane.kubectl(["create", "namespace", "quay"]);
    await pollUntil("the account", 10_000, () =>
      kubectlOutput(["get", "serviceaccount", "default", "--namespace=quay", "--output=name"]).then(
        (said) => said === "serviceaccount/default",
      ),
    );
  }, 600_000);

  test("creates the pods of a deployment, and reports why it binds none without a node", async () => {
    await plane.kubectl(["create", "deployment", "idle", "--image=berth.test/web:1", "--replicas=2"]);
    const path =
      "--output=jsonpath={range .items[*]}{.status.conditions[?(@.type=='PodScheduled')].message}{'\\n'}{end}";
    await pollUntil("two unschedulable pods", 20_000, async () => {
      const said = (await kubectlOutput(["get", "pods", "--selector=app=idle", path])).split("\n");
      return said.filter((line) => line.startsWith("no nodes available")).length === 2;
    });
  }, 600_000);

  test("allows a node to modify its own objects and no others", async () => {
    const [a] = await Promise.all(["a", "b"].map((name) => plane.nodeKubeconfig(name)));
    const asNode = { kubeconfig: a!, input: "" };
    const node = (name: string) => JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name } });
    const create = (name: string) => kubectlOutput(["create", "--filename=-"], { ...asNode, input: node(name) });
    expect(await create("a")).toContain("node/a created");
    expect(await create("b")).toContain('node "a" is not allowed to modify node "b"');

    await makeSecret("others");
    const said = await kubectlOutput(["get", "secret", "others"], asNode);
    expect(said).toContain('secrets "others" is forbidden: User "system:node:a" cannot get resource "secrets"');
    expect(await kubectlOutput(["get", "secrets"], asNode)).toContain("is forbidden");
    await plane.kubectl(["delete", "node", "a"]);
  }, 600_000);

  test("rejects a wrong token", async () => {
    const kubeconfig = await plane.kubeconfig("stranger", { token: "guess" });
    expect(await kubectlOutput(["get", "pods"], { kubeconfig })).toMatch(/Unauthorized|must be logged in/);
  }, 600_000);

  test("returns at its address with its data after an outage, and after a restart with a new certificate", async () => {
    await makeSecret("kept");
    const shown = await fingerprint(plane);
    await plane.stopApiServer();
    expect(plane.apiServerPid).toBe(0);
    expect(await kubectlOutput(["get", "--raw", "/readyz"])).toMatch(REFUSED);
    await plane.startApiServer();
    expect(plane.apiServerPid).toBeGreaterThan(0);
    expect(await fingerprint(plane)).toBe(shown);

    await plane.restartApiServer({ newCertificate: true });
    expect(await fingerprint(plane)).not.toBe(shown);
    expect(await plane.kubectl(["get", "secret", "kept", "--output=jsonpath={.data.word}"])).toBe(btoa("hidden"));
    // The controllers have survived the outage, or were restarted.
    await plane.kubectl(["create", "namespace", "after"]);
    await pollUntil("the account", 30_000, () =>
      kubectlOutput(["get", "serviceaccount", "default", "--namespace=after", "--output=name"]).then(
        (said) => said === "serviceaccount/default",
      ),
    );
  }, 600_000);
});

/** The fingerprint of the API server's certificate. */
async function fingerprint(plane: ControlPlane): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(plane.server).port), ca: plane.ca }, () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? "");
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

describe.skipIf(skip !== undefined)("a bare API server", () => {
  beforeEach(makeFolder);
  afterEach(() => rm(folder, { recursive: true }));

  test(
    "a later control plane has the objects of the first one, and its own client CA",
    async () => {
      const startAndRead = async () => {
        const plane = await startControlPlane({ stateDir: folder, components: [] });
        try {
          const uid = await plane.kubectl(["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]);
          const configMap = ["configmap", "--namespace=kube-system", "extension-apiserver-authentication"];
          await plane.kubectl(["wait", "--for=create", ...configMap, "--timeout=30s"]);
          const ca = await plane.kubectl(["get", ...configMap, "--output=jsonpath={.data.client-ca-file}"]);
          expect(ca.trim()).toBe(plane.ca.trim());
          return uid;
        } finally {
          await plane.stop();
        }
      };
      const uid = await startAndRead();
      expect(uid).not.toBe("");
      expect(await startAndRead()).toBe(uid);
    },
    BUILD_TIMEOUT_MS,
  );

  test(
    "answers with the latency that a test configures",
    async () => {
      const plane = await startControlPlane({ stateDir: folder, components: [], latency: 150 });
      try {
        const started = performance.now();
        await fingerprint(plane);
        // The relay accepts the connection itself; the TLS handshake takes one round trip through it.
        expect(performance.now() - started).toBeGreaterThanOrEqual(299);
        expect(await plane.kubectl(["get", "--raw", "/readyz"])).toBe("ok");
        plane.relay?.reset();
        plane.relay?.delay(0);
        expect(await plane.kubectl(["get", "--raw", "/readyz"])).toBe("ok");
      } finally {
        await plane.stop();
      }
    },
    BUILD_TIMEOUT_MS,
  );

  test(
    "answers a watch from an old resourceVersion with 410 after a compaction",
    async () => {
      const flags = { "kube-apiserver": ["--watch-cache=false"] };
      const plane = await startControlPlane({ stateDir: folder, components: [], flags });
      try {
        const create = ["create", "configmap", "old", "--output=jsonpath={.metadata.resourceVersion}"];
        const before = Number(await plane.kubectl(create)) - 1;
        const path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1";
        const watch = () => plane.kubectl(["get", "--raw", `${path}&resourceVersion=${before}`]);
        // etcd may take more than a second for its first event.
        const waitForWatchEvent = (word: string) => pollUntil(word, 20_000, async () => (await watch()).includes(word));
        await waitForWatchEvent('"type":"ADDED"');
        await plane.kubectl(["create", "configmap", "new"]);
        await waitForWatchEvent('"type":"ADDED"');
        await plane.compactEtcd();
        await waitForWatchEvent('"code":410');
      } finally {
        await plane.stop();
      }
    },
    BUILD_TIMEOUT_MS,
  );

  test(
    "is stopped again if its scheduler does not start, and the error names the reason",
    async () => {
      const flags = { "kube-scheduler": ["--no-such-flag"] };
      const attempt = startControlPlane({ stateDir: folder, components: ["kube-scheduler"], flags });
      const message = await attempt.then(() => "it started", String);
      expect(message).toContain("kube-scheduler is not ready");
      expect(message).toContain("unknown flag: --no-such-flag");
      expect((await listRecords()).filter(({ stateDir }) => stateDir === folder)).toEqual([]);
      expect(await processesOf(folder)).toEqual([]);
    },
    BUILD_TIMEOUT_MS,
  );

  test(
    "is removed by npm run reset when its owner was killed",
    async () => {
      const harness = fileURLToPath(new URL("../upstream/crash-fixture.ts", import.meta.url));
      const child = execa(process.execPath, [harness, folder], { stdin: "pipe", reject: false });
      await new Promise<void>((ready, failed) => {
        child.stdout.once("data", () => ready());
        child.then((result) => failed(new Error(`the harness ended: ${result.stderr}`)), failed);
      });
      child.kill("SIGKILL");
      await child;

      const bed = (await listRecords()).find((record) => record.stateDir === folder)!;
      expect(describeBedResources(await findBedResources(bed))[0]).toMatch(/^2 processes/);
      const said: string[] = [];
      expect(await resetBeds(false, (line) => said.push(line))).toBe(0);
      const own = said.findIndex((line) => line.startsWith(`${folder}: removed`));
      expect(said.slice(own, own + 2).join("\n")).toMatch(/: removed .*\n *2 processes/);
      expect(await processesOf(folder)).toEqual([]);
      expect((await readdir(folder)).toSorted()).toEqual(["etcd.log", "kube-apiserver.log"]);
    },
    BUILD_TIMEOUT_MS,
  );
});
