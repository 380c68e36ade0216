// Projected volumes of ClusterTrustBundles and pod certificates: missing, arriving, changing, refused and refreshed.
import { expect, test } from "bun:test";
import { clusterTrustBundles, podCertificateRequests, pods } from "../../kube/resource.ts";
import type { PodCertificateRequest } from "../../proto/kubernetes/certificates.ts";
import type { PodSpec, VolumeProjection } from "../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../proto/kubernetes/values/time.ts";
import { formatPemBlock } from "../../proto/pem.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const bundles = clusterTrustBundles("v1beta1");
const pem = (...texts: readonly string[]) =>
  texts.map((text) => formatPemBlock("CERTIFICATE", new TextEncoder().encode(text))).join("");

async function addBundle({ kube }: AgentHarness, name: string, signerName: string | undefined, ...texts: string[]) {
  const spec = { trustBundle: `# of the test\n${pem(...texts)}`, ...(signerName !== undefined && { signerName }) };
  await kube.user.create(bundles, { metadata: { name, labels: { live: "true" } }, spec });
  await settlePromises();
}

const specOf = (...sources: readonly VolumeProjection[]): Partial<PodSpec> => ({
  containers: [
    { name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", volumeMounts: [{ name: "v", mountPath: "/v" }] },
  ],
  volumes: [{ name: "v", projected: { sources } }],
});
const trusting = specOf(
  { clusterTrustBundle: { name: "ca", path: "ca.crt" } },
  {
    clusterTrustBundle: { signerName: "a.example/b", labelSelector: { matchLabels: { live: "true" } }, path: "b.crt" },
  },
);
const certified = specOf({
  podCertificate: {
    signerName: "a.example/b",
    keyType: "ED25519",
    maxExpirationSeconds: 86_400,
    credentialBundlePath: "bundle.pem",
    keyPath: "key.pem",
    certificateChainPath: "chain.pem",
  },
});

/** The files that containers see: `ca.crt …`. */
async function shownFiles({ disk }: AgentHarness): Promise<Readonly<Record<string, string>>> {
  const root = disk.at("/");
  const files: Record<string, string> = {};
  for (const path of disk.paths()) {
    const [, file] = /\/kubernetes\.io~projected\/v\/([^./][^/]*)$/.exec(path) ?? [];
    if (file !== undefined) files[file] = await root.read(path, 10_000);
  }
  return files;
}

const requestsOf = async ({ kube }: AgentHarness): Promise<readonly PodCertificateRequest[]> =>
  (await kube.user.list(podCertificateRequests("default"), {})).items;

/** Answers every request that has no answer, as a signer does. */
async function answer(harness: AgentHarness, status: (now: number) => PodCertificateRequest["status"] & object) {
  for (const { metadata, status: answered } of await requestsOf(harness))
    if (answered === undefined)
      await harness.kube.user.patch(podCertificateRequests("default"), metadata.name ?? "", {
        type: "merge",
        subresource: "status",
        body: { status: status(harness.clock.now()) },
      });
}
const HOUR_MS = 3_600_000;
const issue = (text: string) => (now: number) => ({
  conditions: [{ type: "Issued", reason: "Test", message: "", status: "True", lastTransitionTime: formatTime(now) }],
  certificateChain: `# of the test\n${pem(text)}`,
  notBefore: formatTime(now),
  beginRefreshAt: formatTime(now + HOUR_MS),
  notAfter: formatTime(now + 2 * HOUR_MS),
});
const refuse = (type: "Denied" | "Failed") => (now: number) => ({
  conditions: [
    { type, reason: "NotForYou", message: 'no "web" here', status: "True", lastTransitionTime: formatTime(now) },
  ],
});
/** From now on requests are issued as soon as they are made. */
function startSigner(harness: AgentHarness, text = "one"): void {
  harness.nodeObject = { metadata: { name: "node", uid: "node-uid" }, spec: {} };
  harness.kube.after.create = async (target) => {
    if (target.startsWith("podcertificaterequests")) await answer(harness, issue(text));
  };
}

const mountFailures = async (harness: AgentHarness) => [
  ...new Set((await harness.events("web")).filter((each) => each.includes("FailedMount")).map(withoutCount)),
];
const withoutCount = (event: string) => event.replace(/^\d+x Warning FailedMount: /, "");
const setUpFailed = (why: string) => `MountVolume.SetUp failed for volume "v" : ${why}`;

apiScenario(
  "a pod waits for its trust bundles without a sandbox, and runs as soon as they are there",
  async (harness) => {
    await harness.apply("web", trusting);
    await harness.advance("10s");
    if (harness.runtime.sandboxes.size > 0) throw new Error("the pod has a sandbox before its volumes");
    await addBundle(harness, "ca", undefined, "two", "one", "two");
    await addBundle(harness, "a.example:b:1", "a.example/b", "three");
    await harness.advance("500ms");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(await shownFiles(harness)).toEqual({ "ca.crt": pem("one", "two"), "b.crt": pem("three") });
    expect((await mountFailures(harness))[0]).toBe(
      setUpFailed(
        '[while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "ca" not found, combination of signerName and labelSelector matched zero ClusterTrustBundles]',
      ),
    );
  },
);

apiScenario(
  "a running pod sees a changed trust bundle, and keeps a deleted one; nothing is left of it afterwards",
  async (harness) => {
    await addBundle(harness, "ca", undefined, "one");
    await addBundle(harness, "a.example:b:1", "a.example/b", "three");
    await harness.apply("web", trusting);
    await harness.advance("5s");
    const found = await harness.kube.user.get(bundles, "a.example:b:1");
    await harness.kube.user.replace(bundles, { ...found, spec: { ...found.spec, trustBundle: pem("four") } });
    await harness.advance("5s");
    await harness.kube.user.delete(bundles, "ca");
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(await shownFiles(harness)).toEqual({ "ca.crt": pem("one"), "b.crt": pem("four") });
    const watches = harness.kube.openWatches;
    await harness.deletePod("web");
    await harness.advance("60s");
    expect(harness.mounts.mountPoints).toEqual([]);
    expect(harness.kube.openWatches).toBe(watches - 1);
  },
);

test("an API that is off by default is not asked for while no pod needs it", async () => {
  const harness = await runInCluster(async (on) => {
    await on.apply("web");
    await on.advance("60s");
  });
  expect(harness.kube.calls.filter((call) => call.includes("certificates.k8s.io"))).toEqual([]);
});

test("a server without ClusterTrustBundles is asked once, and again after it was away", async () => {
  const harness = await runInCluster(async (on) => {
    on.kube.objects.unserved.add("clustertrustbundles.certificates.k8s.io");
    await on.apply("web", trusting);
    await on.advance("20m");
  });
  expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
  expect(await mountFailures(harness)).toEqual([
    setUpFailed("ClusterTrustBundle projection is not supported in static kubelet mode"),
  ]);
  const asked = () => harness.kube.calls.filter((call) => call.includes("certificates.k8s.io"));
  expect(asked()).toEqual(["list certificates.k8s.io/", "list certificates.k8s.io/"]);
  harness.kube.goDown();
  harness.kube.objects.unserved.clear();
  await addBundle(harness, "ca", undefined, "one");
  await addBundle(harness, "a.example:b:1", "a.example/b", "three");
  await harness.advance("10s");
  harness.kube.comeBack();
  await harness.advance("3m");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

apiScenario(
  "a pod waits for its certificate, and runs as soon as it is issued",
  async (harness) => {
    harness.nodeObject = { metadata: { name: "node", uid: "node-uid" }, spec: {} };
    await harness.apply("web", certified);
    await harness.advance("5s");
    if (harness.runtime.sandboxes.size > 0) throw new Error("the pod has a sandbox before its certificate");
    startSigner(harness);
    await answer(harness, issue("one"));
    await harness.advance("2s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const key = "private key of type ED25519\n";
    expect(await shownFiles(harness)).toEqual({
      "bundle.pem": key + pem("one"),
      "key.pem": key,
      "chain.pem": pem("one"),
    });
    expect(await mountFailures(harness)).toEqual([setUpFailed("credential bundle is not issued yet")]);
    const { metadata, spec } = (await requestsOf(harness))[0]!;
    const { metadata: pod } = await harness.kube.user.get(pods("default"), "web");
    expect(metadata.ownerReferences).toEqual([{ apiVersion: "v1", kind: "Pod", name: "web", uid: pod.uid! }]);
    expect(spec).toMatchObject({
      signerName: "a.example/b",
      podName: "web",
      podUID: pod.uid!,
      serviceAccountName: "default",
      nodeName: "node",
      nodeUID: "node-uid",
      maxExpirationSeconds: 86_400,
      stubPKCS10Request: Buffer.from("request for ED25519").toString("base64"),
    });
    const texts = [...harness.log, ...(await harness.events("web")), JSON.stringify(harness.podReports())].join("\n");
    expect(texts).not.toContain("private key");
  },
);

apiScenario(
  "a running pod gets a new certificate when the signer's time has come",
  async (harness) => {
    startSigner(harness);
    await harness.apply("web", certified);
    await harness.advance("59m");
    startSigner(harness, "two");
    // An agent that has died on the way has a certificate of that time.
    await harness.advance("70m");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect((await shownFiles(harness))["chain.pem"]).toBe(pem("two"));
    expect(await mountFailures(harness)).toEqual([]);
  },
  { stride: 3 },
);

for (const type of ["Denied", "Failed"] as const)
  apiScenario(
    `a pod whose certificate request has ${type} waits, and its events say why`,
    async (harness) => {
      harness.nodeObject = { metadata: { name: "node", uid: "node-uid" }, spec: {} };
      harness.kube.after.create = async (target) => {
        if (target.startsWith("podcertificaterequests")) await answer(harness, refuse(type));
      };
      await harness.apply("web", certified);
      await harness.advance("30s");
    },
    async (end, harness) => {
      expect(end.api).toEqual(["web Pending: a waiting ContainerCreating"]);
      const refused = `reason="NotForYou" message="no \\"web\\" here"`;
      expect(await mountFailures(harness)).toEqual([
        setUpFailed(`PodCertificateRequest was permanently ${type.toLowerCase()}: ${refused}`),
      ]);
      const requests = await requestsOf(harness);
      expect(requests.length).toBe(1);
      const name = requests[0]?.metadata.name;
      const verb = type === "Denied" ? "was denied" : "failed";
      expect(await harness.events("web")).toContain(
        `1x Warning ${type}: PodCertificateRequest default/${name} ${verb}, reason="NotForYou", message="no \\"web\\" here"`,
      );
    },
    { stride: 3 },
  );

test("a certificate that is not refreshed stays in the pod, and events say that it is overdue and then expired", async () => {
  const harness = await runInCluster(async (on) => {
    startSigner(on);
    await on.apply("web", certified);
    await on.advance("5s");
    delete on.kube.after.create;
    await on.advance("75m");
  });
  expect((await requestsOf(harness)).length).toBe(2);
  const late = async () => (await harness.events("web")).filter((event) => event.includes("Certificate"));
  expect(await late()).toEqual(["1x Warning CertificateOverdueForRefresh: PodCertificate refresh overdue"]);
  await harness.advance("60m");
  expect(await late()).toEqual([
    "1x Warning CertificateOverdueForRefresh: PodCertificate refresh overdue",
    "1x Warning CertificateExpired: PodCertificate expired",
  ]);
  expect((await shownFiles(harness))["chain.pem"]).toBe(pem("one"));
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

test("nothing is requested, watched or due any more for a pod that is gone, whose certificate was to be refreshed", async () => {
  const harness = await runInCluster(async (on) => {
    startSigner(on);
    await on.apply("web", certified);
    await on.advance("5s");
  });
  const watches = harness.kube.openWatches;
  await harness.deletePod("web");
  await harness.advance("180m");
  expect((await requestsOf(harness)).length).toBe(1);
  expect(harness.kube.openWatches).toBe(watches - 1);
  expect((await harness.events("web")).filter((event) => event.includes("Certificate"))).toEqual([]);
});

test("a request that was deleted before its answer is made again", async () => {
  const harness = await runInCluster(async (on) => {
    on.nodeObject = { metadata: { name: "node", uid: "node-uid" }, spec: {} };
    await on.apply("web", certified);
    await on.advance("5s");
    startSigner(on);
    for (const { metadata } of await requestsOf(on))
      await on.kube.user.delete(podCertificateRequests("default"), metadata.name ?? "");
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

test("a server without PodCertificateRequests gets none, and the pod waits in the kubelet's words", async () => {
  const harness = await runInCluster(async (on) => {
    startSigner(on);
    on.kube.objects.unserved.add("podcertificaterequests.certificates.k8s.io");
    await on.apply("web", certified);
    await on.advance("10m");
  });
  const { uid = "" } = (await harness.kube.user.get(pods("default"), "web")).metadata;
  expect(await mountFailures(harness)).toEqual([setUpFailed(`no credentials yet for key={default web ${uid} v 0}`)]);
  expect(harness.kube.calls.filter((call) => call.includes("certificates.k8s.io"))).toEqual([
    "list certificates.k8s.io/",
  ]);
});

test("a refused request is repeated ever more rarely, and the event says what the server says", async () => {
  const harness = await runInCluster(async (on) => {
    startSigner(on);
    on.kube.before.create = (target) => {
      if (target.startsWith("podcertificaterequests")) on.kube.objects.kindOf("nothing");
    };
    await on.apply("web", certified);
    await on.advance("10m");
  });
  const created = harness.kube.calls.filter((call) => call.startsWith("create podcertificaterequests"));
  expect(created.length).toBeLessThan(15);
  expect(await mountFailures(harness)).toEqual([
    setUpFailed(
      "credential bundle is not issued yet: while creating initial PodCertificateRequest: while creating on API: the server could not find the requested resource",
    ),
  ]);
});
