// Credential provider plugins: the pods that get their credentials, and the pods that may use the pulled images
// (KEP-4412).
import { expect, test } from "bun:test";
import { createCredentialProviders } from "../../agent/act/images/credential-providers.ts";
import { ExecError } from "../../host/exec.ts";
import { KubeError } from "../../kube/error.ts";
import { secrets, serviceAccounts } from "../../kube/resource.ts";
import type { CredentialProvider, TokenAttributes } from "../../proto/kubelet/credential-provider.ts";
import type { PodSpec, PullPolicy } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { FakeLog } from "../fakes/log.ts";
import { podsWithContainers } from "./api-scenario.ts";
import { type NodeOptions, testDeaths } from "./harness/death-tests.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const CREDENTIALS = "captain:let me in";
const V1 = "credentialprovider.kubelet.k8s.io/v1";

const vault: CredentialProvider = {
  name: "vault",
  matchImages: ["registry.example"],
  defaultCacheDurationMs: 600_000,
  apiVersion: V1,
  args: [],
  env: {},
};
const tokenAttributes: TokenAttributes = {
  serviceAccountTokenAudience: "vault",
  cacheType: "ServiceAccount",
  requireServiceAccount: true,
  requiredServiceAccountAnnotationKeys: [],
  optionalServiceAccountAnnotationKeys: [],
};
const [username, password] = CREDENTIALS.split(":");
const answer = (auth: unknown = { "registry.example": { username, password } }) =>
  JSON.stringify({ kind: "CredentialProviderResponse", apiVersion: V1, cacheKeyType: "Registry", auth });

/**
 * A node in a cluster with one plugin, for each of its agents. `run` returns the plugin's output for a service account
 * token.
 */
async function nodeWith(
  provider: CredentialProvider,
  run: (token: string | undefined) => string,
  node: NodeOptions = {},
) {
  const requests: string[] = [];
  const exec = {
    async run(_argv: readonly string[], { stdin }: { readonly stdin?: unknown }) {
      requests.push(String(stdin));
      const { serviceAccountToken } = JSON.parse(String(stdin)) as { readonly serviceAccountToken?: string };
      return { stdout: run(serviceAccountToken), stderr: "" };
    },
  };
  const log = new FakeLog();
  const harness = await createHarness({
    isInCluster: true,
    ...node,
    createCredentialProviders:
      ({ clock }) =>
      (accounts) =>
        createCredentialProviders({
          providers: [provider],
          binDir: "/opt",
          exec,
          environment: {},
          accounts,
          clock,
          log,
        }),
  });
  harness.runtime.registry.set(IMAGE, undefined);
  harness.runtime.privateImages.set(IMAGE, CREDENTIALS);
  for (const name of ["robot", "other"])
    await harness.kube.user.create(serviceAccounts("default"), { metadata: { name, namespace: "default" } });
  await harness.start();
  return { harness, requests, log };
}

const specOf = (serviceAccountName: string, imagePullPolicy: PullPolicy = "IfNotPresent"): Partial<PodSpec> => ({
  serviceAccountName,
  containers: [{ name: "a", image: IMAGE, imagePullPolicy }],
});

test("an image pulled with the credentials of a plugin without tokens may be used by all pods of the node", async () => {
  const { harness, requests } = await nodeWith(vault, () => answer());
  await harness.apply("one", specOf("robot"));
  await harness.advance("2s");
  await harness.apply("two", specOf("other", "Never"));
  await harness.apply("three", specOf("other", "Always"));
  await harness.advance("2s");
  expect(await harness.apiPods()).toEqual(["one", "three", "two"].map((name) => `${name} Running, ready: a running`));
  expect([harness.runtime.pullCredentials, requests.length]).toEqual([[CREDENTIALS, CREDENTIALS], 1]);
});

const answerByAccount = (token: string | undefined) => answer(token?.includes("of robot") ? undefined : null);
/** A node whose plugin has credentials for one of two service accounts. */
const nodeWithTwoAccounts = async (node: NodeOptions = {}): Promise<AgentHarness> =>
  (await nodeWith({ ...vault, tokenAttributes }, answerByAccount, node)).harness;

/** Runs pods of both service accounts. */
async function runTwoAccounts(harness: AgentHarness): Promise<void> {
  await harness.apply("owner", specOf("robot"));
  await harness.advance("2s");
  await harness.apply("mate", specOf("robot", "Never"));
  await harness.apply("thief", specOf("other", "Never"));
  await harness.apply("eager", specOf("other"));
  await harness.advance("61s");
}

test("an image pulled for a service account may be used only by pods of that account", async () => {
  const harness = await nodeWithTwoAccounts();
  await runTwoAccounts(harness);
  expect(await harness.apiPods()).toEqual([
    expect.stringMatching(/^eager Pending: a waiting (ErrImagePull|ImagePullBackOff)$/),
    "mate Running, ready: a running",
    "owner Running, ready: a running",
    "thief Pending: a waiting ErrImageNeverPull",
  ]);
  const texts = [...harness.log, ...(await harness.events("owner")), ...(await harness.events("eager"))].join("\n");
  expect(texts).not.toMatch(/let me in|token \d/);
});

testDeaths({
  name: "no pod of another service account runs the image",
  create: nodeWithTwoAccounts,
  run: runTwoAccounts,
  endOf: podsWithContainers,
  expectEnd: (end) => expect(end).toEqual(["mate", "owner"]),
  stride: 3,
});

test("while the API server is down, pods of the account restart with the image pulled for it", async () => {
  const { harness } = await nodeWith({ ...vault, tokenAttributes }, answerByAccount);
  await harness.apply("owner", specOf("robot"));
  await harness.advance("2s");
  await harness.stop();
  harness.kube.goDown();
  await harness.start();
  await harness.exit("a", 1);
  await harness.advance("60s");
  expect(harness.podReports().map(({ status }) => [status.phase, status.containerStatuses?.[0]?.restartCount])).toEqual(
    [["Running", 1]],
  );
});

test("when the plugin fails, the pull uses the pod's own Secret, and the log names the error", async () => {
  const { harness, log } = await nodeWith(vault, () => {
    throw new ExecError(["vault"], 1, "the vault is sealed", "vault failed");
  });
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(CREDENTIALS) } } });
  await harness.kube.user.create(secrets("default"), {
    metadata: { name: "own", namespace: "default" },
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": btoa(config) },
  });
  await settlePromises();
  await harness.apply("one", { ...specOf("robot"), imagePullSecrets: [{ name: "own" }] });
  await harness.advance("2s");
  expect(await harness.apiPods()).toEqual(["one Running, ready: a running"]);
  expect(log.lines.map(({ level, fields }) => [level, fields["why"]])).toEqual([
    ["warn", "it exited with code 1: the vault is sealed"],
  ]);
});

const denials: readonly [sentence: string, deny: (harness: AgentHarness) => Promise<unknown>][] = [
  ["was deleted", (harness) => harness.kube.user.delete(serviceAccounts("default"), "robot")],
  [
    "cannot be read for lack of permission",
    async ({ kube }) => {
      kube.before.get = (about) => {
        if (about.includes("serviceaccounts")) throw new KubeError("FORBIDDEN", "no");
      };
    },
  ],
];
for (const [sentence, deny] of denials)
  test(`a service account that ${sentence} gives its pods no access to the image`, async () => {
    const { harness } = await nodeWith({ ...vault, tokenAttributes }, answerByAccount);
    await harness.apply("owner", specOf("robot"));
    await harness.advance("40s");
    await deny(harness);
    await harness.apply("late", specOf("robot", "Never"));
    await harness.advance("2s");
    expect(await harness.apiPods()).toContain("late Pending: a waiting ErrImageNeverPull");
  });

test("while reads of service accounts hang, a deleted pod still ends at once", async () => {
  const { harness } = await nodeWith({ ...vault, tokenAttributes }, answerByAccount);
  const containers = ["a", "b"].map((name) => ({ name, image: IMAGE, imagePullPolicy: "IfNotPresent" as const }));
  await harness.apply("owner", { ...specOf("robot"), restartPolicy: "Never", containers });
  await harness.advance("2s");
  await harness.exit("a", 1);
  await harness.advance("60s");
  harness.kube.before.get = (about) => (about.includes("serviceaccounts") ? new Promise(() => {}) : undefined);
  await harness.deletePod("owner", 1);
  await harness.advance("3s");
  expect(await harness.apiPods()).toEqual([]);
});

test("while reads of service accounts hang, a container of the account restarts within seconds", async () => {
  const { harness } = await nodeWith({ ...vault, tokenAttributes }, answerByAccount);
  const containers = ["a", "b"].map((name) => ({ name, image: IMAGE, imagePullPolicy: "IfNotPresent" as const }));
  await harness.apply("owner", { ...specOf("robot"), containers });
  await harness.apply("thief", specOf("other", "Never"));
  await harness.advance("60s");
  harness.kube.before.get = (about) => (about.includes("serviceaccounts") ? new Promise(() => {}) : undefined);
  await harness.exit("a", 1);
  await harness.advance("2s");
  // The read has exceeded its limit by now, so the second restart does not wait for it.
  await harness.exit("b", 1);
  await harness.advance("500ms");
  expect(await harness.apiPods()).toEqual([
    "owner Running, ready: a running (restarts: 1), b running (restarts: 1)",
    "thief Pending: a waiting ErrImageNeverPull",
  ]);
});
