// Logins that a program of the node gives: for which pods, and what becomes of what they have brought.
import { expect, test } from "bun:test";
import { createCredentialProviders } from "../../agent/act/images/credential-providers.ts";
import { ExecError } from "../../host/exec.ts";
import { KubeError } from "../../kube/error.ts";
import { secrets, serviceAccounts } from "../../kube/resource.ts";
import type { CredentialProvider, TokenAttributes } from "../../proto/kubelet/credential-provider.ts";
import type { PodSpec, PullPolicy } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { FakeLog } from "../fakes/log.ts";
import { createStage, type Stage } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const LOGIN = "captain:let me in";
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
const [username, password] = LOGIN.split(":");
const answer = (auth: unknown = { "registry.example": { username, password } }) =>
  JSON.stringify({ kind: "CredentialProviderResponse", apiVersion: V1, cacheKeyType: "Registry", auth });

/** A node of a cluster whose program answers so, by the token that it is given; each of its agents has it. */
async function nodeWith(
  provider: CredentialProvider,
  run: (token: string | undefined) => string,
  dieAfterCall?: number,
) {
  const asked: string[] = [];
  const exec = {
    async run(_argv: readonly string[], { stdin }: { readonly stdin?: unknown }) {
      asked.push(String(stdin));
      const { serviceAccountToken } = JSON.parse(String(stdin)) as { readonly serviceAccountToken?: string };
      return { stdout: run(serviceAccountToken), stderr: "" };
    },
  };
  const log = new FakeLog();
  const stage = await createStage({
    isInCluster: true,
    ...(dieAfterCall === undefined ? {} : { dieAfterCall }),
    providers:
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
  stage.runtime.registry.set(IMAGE, undefined);
  stage.runtime.privateImages.set(IMAGE, LOGIN);
  for (const name of ["robot", "other"])
    await stage.kube.user.create(serviceAccounts("default"), { metadata: { name, namespace: "default" } });
  await stage.start();
  return { stage, asked, log };
}

const specOf = (serviceAccountName: string, imagePullPolicy: PullPolicy = "IfNotPresent"): Partial<PodSpec> => ({
  serviceAccountName,
  containers: [{ name: "a", image: IMAGE, imagePullPolicy }],
});

test("an image is pulled by the login that a program gives, which is for all pods of the node", async () => {
  const { stage, asked } = await nodeWith(vault, () => answer());
  await stage.apply("one", specOf("robot"));
  await stage.advance("2s");
  await stage.apply("two", specOf("other", "Never"));
  await stage.apply("three", specOf("other", "Always"));
  await stage.advance("2s");
  expect(await stage.shown()).toEqual(["one", "three", "two"].map((name) => `${name} Running, ready: a running`));
  expect([stage.runtime.logins, asked.length]).toEqual([[LOGIN, LOGIN], 1]);
});

const byAccount = (token: string | undefined) => answer(token?.includes("of robot") ? undefined : null);
/** Pods of two service accounts, of which the program knows one. */
async function playOfAccounts(dieAfterCall?: number): Promise<Stage> {
  const { stage } = await nodeWith({ ...vault, tokenAttributes }, byAccount, dieAfterCall);
  await stage.apply("owner", specOf("robot"));
  await stage.advance("2s");
  await stage.apply("mate", specOf("robot", "Never"));
  await stage.apply("thief", specOf("other", "Never"));
  await stage.apply("eager", specOf("other"));
  await stage.advance("61s");
  return stage;
}

test("what a service account has brought is for pods of that account alone", async () => {
  const stage = await playOfAccounts();
  expect(await stage.shown()).toEqual([
    expect.stringMatching(/^eager Pending: a waiting (ErrImagePull|ImagePullBackOff)$/),
    "mate Running, ready: a running",
    "owner Running, ready: a running",
    "thief Pending: a waiting ErrImageNeverPull",
  ]);
  const told = [...stage.story, ...(await stage.events("owner")), ...(await stage.events("eager"))].join("\n");
  expect(told).not.toMatch(/let me in|token \d/);
});

test("and so it is whatever call the agent dies after", async () => {
  const { calls } = await playOfAccounts();
  for (let call = 0; call < calls; call += 3 * Number(process.env["DIE_EVERY"] ?? 1)) {
    const { runtime } = await playOfAccounts(call);
    const pods = [...runtime.containers.values()].map(({ sandbox }) => sandbox.config.metadata?.name);
    expect({ call, pods: [...new Set(pods)].toSorted() }).toEqual({ call, pods: ["mate", "owner"] });
  }
}, 60_000);

test("while the API server is away, pods of the account start again from what it has brought", async () => {
  const { stage } = await nodeWith({ ...vault, tokenAttributes }, byAccount);
  await stage.apply("owner", specOf("robot"));
  await stage.advance("2s");
  await stage.stop();
  stage.kube.goDown();
  await stage.start();
  await stage.exit("a", 1);
  await stage.advance("60s");
  expect(stage.pods().map(({ status }) => [status.phase, status.containerStatuses?.[0]?.restartCount])).toEqual([
    ["Running", 1],
  ]);
});

test("where a program fails, the pull goes on by the pod's own Secret, and the log says why", async () => {
  const { stage, log } = await nodeWith(vault, () => {
    throw new ExecError(["vault"], 1, "the vault is sealed", "vault failed");
  });
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(LOGIN) } } });
  await stage.kube.user.create(secrets("default"), {
    metadata: { name: "own", namespace: "default" },
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": btoa(config) },
  });
  await rest();
  await stage.apply("one", { ...specOf("robot"), imagePullSecrets: [{ name: "own" }] });
  await stage.advance("2s");
  expect(await stage.shown()).toEqual(["one Running, ready: a running"]);
  expect(log.lines.map(({ level, fields }) => [level, fields["why"]])).toEqual([
    ["warn", "it ended with code 1: the vault is sealed"],
  ]);
});

const denials: readonly [sentence: string, deny: (stage: Stage) => Promise<unknown>][] = [
  ["is gone", (stage) => stage.kube.user.delete(serviceAccounts("default"), "robot")],
  [
    "may not be seen",
    async ({ kube }) => {
      kube.before.get = (about) => {
        if (about.includes("serviceaccounts")) throw new KubeError("FORBIDDEN", "no");
      };
    },
  ],
];
for (const [sentence, deny] of denials)
  test(`an account that ${sentence} gives its name's pods no right`, async () => {
    const { stage } = await nodeWith({ ...vault, tokenAttributes }, byAccount);
    await stage.apply("owner", specOf("robot"));
    await stage.advance("40s");
    await deny(stage);
    await stage.apply("late", specOf("robot", "Never"));
    await stage.advance("2s");
    expect(await stage.shown()).toContain("late Pending: a waiting ErrImageNeverPull");
  });

test("while the API server answers nothing about accounts, a pod that is deleted ends at once", async () => {
  const { stage } = await nodeWith({ ...vault, tokenAttributes }, byAccount);
  const containers = ["a", "b"].map((name) => ({ name, image: IMAGE, imagePullPolicy: "IfNotPresent" as const }));
  await stage.apply("owner", { ...specOf("robot"), restartPolicy: "Never", containers });
  await stage.advance("2s");
  await stage.exit("a", 1);
  await stage.advance("60s");
  stage.kube.before.get = (about) => (about.includes("serviceaccounts") ? new Promise(() => {}) : undefined);
  await stage.remove("owner", 1);
  await stage.advance("3s");
  expect(await stage.shown()).toEqual([]);
});

test("while the API server answers nothing about accounts, a container of the account starts again within seconds", async () => {
  const { stage } = await nodeWith({ ...vault, tokenAttributes }, byAccount);
  const containers = ["a", "b"].map((name) => ({ name, image: IMAGE, imagePullPolicy: "IfNotPresent" as const }));
  await stage.apply("owner", { ...specOf("robot"), containers });
  await stage.apply("thief", specOf("other", "Never"));
  await stage.advance("60s");
  stage.kube.before.get = (about) => (about.includes("serviceaccounts") ? new Promise(() => {}) : undefined);
  await stage.exit("a", 1);
  await stage.advance("2s");
  // The answer is late by now, and nobody waits for it any more.
  await stage.exit("b", 1);
  await stage.advance("500ms");
  expect(await stage.shown()).toEqual([
    "owner Running, ready: a running (restarts: 1), b running (restarts: 1)",
    "thief Pending: a waiting ErrImageNeverPull",
  ]);
});
