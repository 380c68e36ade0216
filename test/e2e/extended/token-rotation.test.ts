import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "../cluster/api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "../cluster/node.ts";
import { script } from "../manifest.ts";
import { linesContaining } from "../node.ts";

/** The API server's shortest expiry is ten minutes, and the token is replaced when a fifth of that is left. */
const EXPIRY_MS = 600_000;
const REFRESH_MS = 0.8 * EXPIRY_MS;
const JITTER_MS = 10_000;

setDefaultTimeout(EXPIRY_MS + 60_000);

const skip = skipWithoutPrograms("a token that expires in ten minutes");

/** The answer of TokenReview: whether the token is accepted, and the pod that it is bound to. */
interface Review {
  readonly authenticated?: boolean;
  readonly audiences?: readonly string[];
  readonly user?: { readonly username: string; readonly extra: Readonly<Record<string, readonly string[]>> };
}

describe.skipIf(skip !== undefined)("a token that expires in ten minutes", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const review = async (token: string): Promise<Review> => {
    const object = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token, audiences: ["vault"] },
    };
    const argv = ["create", "--filename=-", "--output=json"];
    return JSON.parse(await cluster.plane.kubectl(argv, { input: JSON.stringify(object) })).status;
  };
  const claimsOf = (token: string): { readonly iat: number; readonly exp: number } =>
    JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());

  test("passes TokenReview, is replaced in the running pod when a fifth of its time is left, and the next one passes, too", async () => {
    await cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s");
    const source = { serviceAccountToken: { path: "token", audience: "vault", expirationSeconds: EXPIRY_MS / 1000 } };
    const spec: Partial<PodSpec> = {
      volumes: [{ name: "tokens", projected: { sources: [source] } }],
      restartPolicy: "Never",
    };
    // The container ends when it sees another token than at its start.
    const text = "cp /tokens/token /tmp/first; while cmp -s /tmp/first /tokens/token; do sleep 1; done; exit 0";
    const container = { volumeMounts: [{ name: "tokens", mountPath: "/tokens" }], command: script(text) };
    await cluster.apply([barePod("patient", container, spec)]);
    const [pod] = await cluster.waitForPods("it is up", "patient", (pods) => pods.some(areContainersReady));
    const uid = pod?.metadata.uid ?? "";
    const file = join(cluster.node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~projected/tokens/token");
    const first = await readFile(file, "utf8");
    const { iat, exp } = claimsOf(first);
    expect(exp - iat).toBe(EXPIRY_MS / 1000);
    const accepted = {
      authenticated: true,
      audiences: ["vault"],
      user: {
        username: "system:serviceaccount:default:default",
        extra: expect.objectContaining({ "authentication.kubernetes.io/pod-uid": [uid] }),
      },
    };
    expect(await review(first)).toMatchObject(accepted);

    const second = await pollUntil("another token", REFRESH_MS + 2 * JITTER_MS, async () => {
      const token = await readFile(file, "utf8");
      return token !== first && token;
    });
    const ageMs = Date.now() - iat * 1000;
    console.log(`the token was replaced ${Math.round(ageMs / 1000)} s after its issue`);
    // The claims count full seconds.
    expect(ageMs).toBeGreaterThan(REFRESH_MS - JITTER_MS - 1_000);
    expect(ageMs).toBeLessThan(REFRESH_MS + 3_000);
    expect(await review(second)).toMatchObject(accepted);
    expect(claimsOf(second).exp).toBeGreaterThan(exp);
    await cluster.waitForPods("it has seen the other token", "patient", (pods) =>
      pods.every(({ status }) => status?.phase === "Succeeded"),
    );
    const log = await cluster.node.log();
    for (const token of [first, second]) expect(linesContaining(log, token)).toEqual([]);
    await cluster.kubectl("delete", "pod", "patient", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });
});
