import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { podCertificateRequests } from "../../../kube/resource.ts";
import type { PodCertificateRequest } from "../../../proto/kubernetes/certificates.ts";
import type { Pod, VolumeProjection } from "../../../proto/kubernetes/gen/types.ts";
import { parsePemBlocks } from "../../../proto/pem.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { createCertificateAuthority } from "../../upstream/pki.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { linesContaining } from "../node.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("trust bundles and pod certificates");
const gates = { ClusterTrustBundle: true, ClusterTrustBundleProjection: true, PodCertificateRequest: true };
const serverFlags = [
  `--feature-gates=${Object.keys(gates)
    .map((gate) => `${gate}=true`)
    .join()}`,
  "--runtime-config=certificates.k8s.io/v1beta1=true",
];
const signerName = "berth.test/pods";
const authority = createCertificateAuthority("pods of the test");
const other = createCertificateAuthority("another authority");

const projecting = (...sources: readonly VolumeProjection[]) => ({ volumes: [{ name: "v", projected: { sources } }] });
const mounted = { volumeMounts: [{ name: "v", mountPath: "/v" }] };
const bundle = (name: string, trustBundle: string, more: object = {}): Manifest => ({
  apiVersion: "certificates.k8s.io/v1beta1",
  kind: "ClusterTrustBundle",
  metadata: { name, ...(name.includes(":") && { labels: { live: "true" } }) },
  spec: { trustBundle, ...more },
});
const withCertificate = (keyType: string) =>
  projecting({
    podCertificate: {
      signerName,
      keyType,
      maxExpirationSeconds: 86_400,
      keyPath: "key",
      certificateChainPath: "chain",
    },
  });

describe.skipIf(skip !== undefined)("on a server with the APIs of certificates, a pod", () => {
  let cluster: ClusterNode;
  let admin: KubeClient & { close(): void };
  beforeAll(async () => {
    cluster = await startClusterNode(undefined, { featureGates: gates }, { "kube-apiserver": serverFlags });
    admin = createAdminClient(cluster.plane, "signer");
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    admin?.close();
    await cluster?.tearDown();
  });

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const fileOf = ({ metadata: { uid = "" } }: Pod, file: string) =>
    join(cluster.node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~projected/v", file);
  const readVolume = (pod: Pod, file: string) => readFile(fileOf(pod, file), "utf8");
  const waitForEvent = (name: string, reason: string, message: string) =>
    pollUntil(`the event: ${message}`, 30_000, async () =>
      parseDescribedEvents(await cluster.kubectl("describe", "pod", name)).some(
        (event) => event.reason === reason && event.message === message,
      ),
    );
  const setUpFailed = (why: string) => `MountVolume.SetUp failed for volume "v" : ${why}`;
  const requestFor = (name: string) =>
    pollUntil(`the request for ${name}`, 20_000, async () => {
      const { items } = await admin.list(podCertificateRequests("default"), {});
      return items.find(({ spec, status }) => spec.podName === name && status?.conditions === undefined);
    });
  const setStatus = ({ metadata: { name = "" } }: PodCertificateRequest, type: string, more: object = {}) =>
    admin.patch(podCertificateRequests("default"), name, {
      type: "merge",
      subresource: "status",
      body: {
        status: {
          conditions: [
            {
              type,
              status: "True",
              reason: "Test",
              message: "by the test",
              lastTransitionTime: new Date().toISOString(),
            },
          ],
          ...more,
        },
      },
    });
  /** Plays the signer: the API server checks that the certificate has the requested key. */
  const issue = async (request: PodCertificateRequest) => {
    const der = Buffer.from(request.spec.stubPKCS10Request, "base64");
    const second = (ms: number) => new Date(Math.floor((Date.now() + ms) / 1000) * 1000);
    const [validFrom, validTo] = [second(-1_000), second(7_200_000)];
    const chain = authority.certify({ commonName: request.spec.podName, validFrom, validTo }, publicKeyIn(der));
    await setStatus(request, "Issued", {
      certificateChain: `${chain}${authority.cert}`,
      notBefore: validFrom.toISOString(),
      beginRefreshAt: second(3_600_000).toISOString(),
      notAfter: validTo.toISOString(),
    });
    return chain;
  };
  const remove = async (...names: readonly string[]) => {
    await cluster.kubectl("delete", "pod", ...names, "--timeout=180s");
    await cluster.waitUntilEmpty();
    const { agentRoot } = cluster.node.paths;
    expect(await createMounts().mountPointsBelow(join(agentRoot, "pods"))).toEqual([]);
    expect(await readdir(join(agentRoot, "pods"))).toEqual([]);
  };

  test("waits for its trust bundles, shows each certificate once, and sees a change within two seconds", async () => {
    const spec = projecting(
      { clusterTrustBundle: { name: "plain", path: "plain.crt" } },
      { clusterTrustBundle: { signerName, labelSelector: { matchLabels: { live: "true" } }, path: "signer.crt" } },
      { clusterTrustBundle: { name: "none", optional: true, path: "none.crt" } },
    );
    await cluster.apply([barePod("trusting", mounted, spec)]);
    const missing =
      '[while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "plain" not found, combination of signerName and labelSelector matched zero ClusterTrustBundles]';
    await waitForEvent("trusting", "FailedMount", setUpFailed(missing));
    const twice = `# a comment\n${authority.cert}# another\n${other.cert}`;
    await cluster.apply([
      bundle("plain", twice),
      bundle("berth.test:pods:1", authority.cert, { signerName }),
      bundle("berth.test:pods:2", authority.cert, { signerName }),
    ]);
    const pod = await waitForPod("trusting", "it is up", areContainersReady);
    expect(new Set(parsePemBlocks(await readVolume(pod, "plain.crt")))).toEqual(new Set(parsePemBlocks(twice)));
    expect(await readVolume(pod, "plain.crt")).not.toContain("#");
    expect(await readVolume(pod, "signer.crt")).toBe(authority.cert);
    expect(await readVolume(pod, "none.crt")).toBe("");
    await cluster.apply([bundle("berth.test:pods:2", other.cert, { signerName })]);
    const changedAt = Date.now();
    await pollUntil("the changed bundle", 10_000, async () =>
      (await readVolume(pod, "signer.crt")).includes(other.cert),
    );
    expect((await stat(fileOf(pod, "signer.crt"))).mtimeMs - changedAt).toBeLessThan(2_000);
    await remove("trusting");
  });

  test.each(["ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072", "RSA4096"])(
    "gets a certificate for a key of type %s that never leaves the node",
    async (keyType) => {
      const name = `has-${keyType.toLowerCase()}`;
      await cluster.apply([barePod(name, mounted, withCertificate(keyType))]);
      const request = await requestFor(name);
      await waitForEvent(name, "FailedMount", setUpFailed("credential bundle is not issued yet"));
      const leaf = await issue(request);
      const pod = await waitForPod(name, "it is up", areContainersReady);
      const [key, chain] = [await readVolume(pod, "key"), await readVolume(pod, "chain")];
      expect(chain).toBe(`${leaf}${authority.cert}`);
      expect(new X509Certificate(chain).checkPrivateKey(createPrivateKey(key))).toBe(true);
      const { spec, metadata } = request;
      expect(spec).toMatchObject({
        signerName,
        podUID: pod.metadata.uid!,
        nodeName: "node-a",
        maxExpirationSeconds: 86_400,
      });
      expect(metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid])).toEqual([["Pod", pod.metadata.uid!]]);
      const secret = key.split("\n")[1] ?? "";
      expect(secret.length).toBeGreaterThan(40);
      expect(linesContaining(await cluster.node.log(), secret)).toEqual([]);
      await remove(name);
    },
  );

  test.each(["Denied", "Failed"])("waits for ever once its request is %s, and its events say why", async (type) => {
    const name = `is-${type.toLowerCase()}`;
    await cluster.apply([barePod(name, mounted, withCertificate("ED25519"))]);
    const request = await requestFor(name);
    await setStatus(request, type);
    const why = `PodCertificateRequest was permanently ${type.toLowerCase()}: reason="Test" message="by the test"`;
    await waitForEvent(name, "FailedMount", setUpFailed(why));
    const verb = type === "Denied" ? "was denied" : "failed";
    await waitForEvent(
      name,
      type,
      `PodCertificateRequest default/${request.metadata.name} ${verb}, reason="Test", message="by the test"`,
    );
    expect((await cluster.runningUids()).sandboxes).toEqual([]);
    await remove(name);
  });

  test("keeps its certificate over kill -9 of the agent; the next agent requests another one and replaces it", async () => {
    await cluster.apply([barePod("kept", mounted, withCertificate("ED25519"))]);
    const first = await issue(await requestFor("kept"));
    const pod = await waitForPod("kept", "it is up", areContainersReady);
    await cluster.node.agent.kill9();
    await cluster.node.launchAgent({ featureGates: gates });
    const request = await requestFor("kept");
    expect(await readVolume(pod, "chain")).toContain(first);
    const second = await issue(request);
    await pollUntil("the new certificate", 10_000, async () => (await readVolume(pod, "chain")).includes(second));
    const [key, chain] = [await readVolume(pod, "key"), await readVolume(pod, "chain")];
    expect(new X509Certificate(chain).checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect((await cluster.pod("kept")).status?.containerStatuses?.[0]?.restartCount).toBe(0);
    await remove("kept");
  });
});

/** The public key in a PKCS#10 request without a name: it follows the version and the empty name. */
function publicKeyIn(request: Buffer) {
  const key = request.subarray(request.indexOf(Buffer.from("0201003000", "hex")) + 5);
  // A DER element: its tag, its length in one byte or in the bytes that the first one counts, its content.
  const count = key[1]! < 0x80 ? 0 : key[1]! & 0x7f;
  const length = count === 0 ? key[1]! : key.readUIntBE(2, count);
  return createPublicKey({ key: key.subarray(0, 2 + count + length), type: "spki", format: "der" });
}
