import { expect, test } from "bun:test";
import { type Exec, ExecError, type ExecOptions } from "../../../host/exec.ts";
import type { CredentialProvider, TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import {
  CredentialProviderError,
  createCredentialProviders,
  type ServiceAccountTokens,
} from "./credential-providers.ts";

const V1 = "credentialprovider.kubelet.k8s.io/v1";
const pod = (name = "web", serviceAccountName = ""): Pod => ({
  metadata: { name, namespace: "shop", uid: `uid-${name}` },
  spec: { containers: [], serviceAccountName },
});
const answer = (changes: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({
    kind: "CredentialProviderResponse",
    apiVersion: V1,
    cacheKeyType: "Image",
    auth: { "r.example": { username: "u", password: "p" } },
    ...changes,
  });
const attributes: TokenAttributes = {
  serviceAccountTokenAudience: "r",
  cacheType: "ServiceAccount",
  requireServiceAccount: true,
  requiredServiceAccountAnnotationKeys: [],
  optionalServiceAccountAnnotationKeys: [],
};

/** A node with one provider, whose fake plugin responds to each request. */
function nodeOf(changes: Partial<CredentialProvider> = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const runs: {
    readonly argv: readonly string[];
    readonly request: Readonly<Record<string, unknown>>;
    readonly options: ExecOptions;
  }[] = [];
  const program = { answer: async (_request: Readonly<Record<string, unknown>>) => answer() };
  const exec: Exec = {
    async run(argv, options) {
      const request = JSON.parse(String(options.stdin)) as Record<string, unknown>;
      runs.push({ argv, request, options });
      return { stdout: await program.answer(request), stderr: "" };
    },
  };
  const accounts: ServiceAccountTokens = {
    accountOf: async ({ spec }) => ({
      uid: "uid",
      namespace: "shop",
      name: spec.serviceAccountName ?? "",
      annotations: { role: "r" },
    }),
    tokenOf: async ({ metadata }) => `token of ${metadata.name}`,
  };
  const provider: CredentialProvider = {
    name: "ecr",
    matchImages: ["*.example", "docker.io"],
    defaultCacheDurationMs: 60_000,
    apiVersion: V1,
    args: ["get", "login"],
    env: { REGION: "north" },
    ...changes,
  };
  const { getCredentials, accountFor } = createCredentialProviders({
    providers: [provider],
    binDir: "/opt/providers",
    exec,
    environment: { PATH: "/bin", REGION: "south" },
    accounts: () => accounts,
    clock,
    log,
  });
  const loginsOf = async (image: string, of = pod(), signal = new AbortController().signal) =>
    (await getCredentials(of, image, signal)).map(
      ([place, { username, password }]) => `${place} ${username}:${password}`,
    );
  const requestedImages = () => runs.splice(0).map(({ request }) => request["image"]);
  return {
    clock,
    log,
    runs,
    program,
    accounts,
    getCredentials,
    accountFor,
    loginsOf,
    requestedImages,
  };
}

test("a plugin runs with its path, its arguments and both environments, and reads the request from stdin", async () => {
  const { runs, loginsOf } = nodeOf();
  expect(await loginsOf(`r.example/team/app:1@sha256:${"0".repeat(64)}`)).toEqual(["r.example u:p"]);
  expect(runs).toEqual([
    {
      argv: ["/opt/providers/ecr", "get", "login"],
      request: { kind: "CredentialProviderRequest", apiVersion: V1, image: "r.example/team/app" },
      options: { stdin: expect.stringMatching(/\n$/), env: { PATH: "/bin", REGION: "north" }, timeoutMs: 60_000 },
    },
  ]);
});

test("a plugin runs only for matching images, by their full repository names", async () => {
  const { loginsOf, requestedImages } = nodeOf();
  expect(await loginsOf("a.b.example/app")).toEqual([]);
  expect(await loginsOf("r.example:5000/app")).toEqual([]);
  await loginsOf("busybox:1");
  expect(requestedImages()).toEqual(["docker.io/library/busybox"]);
});

const scopes: readonly [scope: string, askedAgain: readonly string[]][] = [
  ["Image", ["r.example/other", "q.example/app"]],
  ["Registry", ["q.example/app"]],
  ["Global", []],
];
for (const [cacheKeyType, askedAgain] of scopes)
  test(`a response with cacheKeyType ${cacheKeyType} is reused for that scope only`, async () => {
    const { program, loginsOf, requestedImages } = nodeOf();
    program.answer = async () => answer({ cacheKeyType });
    await loginsOf("r.example/app:1");
    requestedImages();
    for (const image of ["r.example/app:2", "r.example/other:1", "q.example/app:1"]) await loginsOf(image);
    expect(requestedImages()).toEqual([...askedAgain]);
  });

const durations: readonly [
  sentence: string,
  cacheDuration: string | null | undefined,
  byDefaultMs: number,
  keptMs: number,
][] = [
  ["for its cacheDuration", "10s", 60_000, 9_999],
  ["for the configured duration if it has no cacheDuration", undefined, 60_000, 59_999],
  ["for the configured duration if its cacheDuration is null", null, 60_000, 59_999],
  ["not at all if its cacheDuration is 0", "0s", 60_000, -1],
  ["not at all if the configured duration is 0", undefined, 0, -1],
];
for (const [sentence, cacheDuration, defaultCacheDurationMs, keptMs] of durations)
  test(`a response is cached ${sentence}`, async () => {
    const { clock, program, loginsOf, requestedImages } = nodeOf({ defaultCacheDurationMs });
    program.answer = async () => answer({ ...(cacheDuration !== undefined && { cacheDuration }) });
    await loginsOf("r.example/app");
    if (keptMs >= 0) {
      await clock.advance(keptMs);
      await loginsOf("r.example/app");
      expect(requestedImages()).toHaveLength(1);
      await clock.advance(1);
    } else requestedImages();
    await loginsOf("r.example/app");
    expect(requestedImages()).toHaveLength(1);
  });

test("a response without credentials is cached too", async () => {
  const { program, loginsOf, requestedImages } = nodeOf();
  program.answer = async () => answer({ auth: null });
  expect([await loginsOf("r.example/app"), await loginsOf("r.example/app")]).toEqual([[], []]);
  expect(requestedImages()).toHaveLength(1);
});

test("concurrent requests for one image share one plugin run", async () => {
  const { loginsOf, requestedImages } = nodeOf();
  const all = await Promise.all(["a", "b", "c"].map((name) => loginsOf("r.example/app", pod(name))));
  expect(all).toEqual([["r.example u:p"], ["r.example u:p"], ["r.example u:p"]]);
  expect(requestedImages()).toHaveLength(1);
});

test("an aborted request does not abort the run that others wait for", async () => {
  const { program, loginsOf } = nodeOf();
  const { promise, resolve } = Promise.withResolvers<string>();
  program.answer = () => promise;
  const abort = new AbortController();
  const first = loginsOf("r.example/app", pod("a"), abort.signal).catch((error: unknown) => error);
  const second = loginsOf("r.example/app", pod("b"));
  await settlePromises();
  abort.abort(new Error("the pod has to end"));
  expect(await first).toEqual(new Error("the pod has to end"));
  resolve(answer());
  expect(await second).toEqual(["r.example u:p"]);
});

const failures: readonly [sentence: string, fail: () => string, says: string][] = [
  [
    "fails",
    () => {
      throw new ExecError(["ecr", "hunter2"], 3, " no role\n", "ecr failed: ecr hunter2");
    },
    "it exited with code 3: no role",
  ],
  [
    "hangs",
    () => {
      throw new ExecError(["ecr"], undefined, "", "/opt/providers/ecr did not end within 60000 ms");
    },
    "/opt/providers/ecr did not end within 60000 ms",
  ],
  [
    "prints too much",
    () => {
      throw new ExecError(["ecr"], 0, "", "/opt/providers/ecr printed more than 1048576 bytes");
    },
    "/opt/providers/ecr printed more than 1048576 bytes",
  ],
  ["prints nonsense", () => "hunter2", "it printed something that is not a JSON object"],
  ["prints nothing", () => "", "it printed something that is not a JSON object"],
  [
    "prints another version",
    () => answer({ apiVersion: "hunter2" }),
    `it printed something whose apiVersion is not ${V1}`,
  ],
  [
    "prints another kind",
    () => answer({ kind: "hunter2" }),
    "it printed something that is not a CredentialProviderResponse",
  ],
  [
    "prints an unknown field",
    () => answer({ hunter2: 1 }),
    "it printed a CredentialProviderResponse with an unknown field",
  ],
  [
    "prints another scope",
    () => answer({ cacheKeyType: "hunter2" }),
    "it printed a cacheKeyType that is none of Image, Registry, Global",
  ],
  [
    "prints another duration",
    () => answer({ cacheDuration: "hunter2" }),
    "it printed a cacheDuration that is not a duration such as 10m",
  ],
  [
    "prints an invalid credential",
    () => answer({ auth: { "r.example": { password: { hunter2: 1 } } } }),
    "it printed credentials that are not an object of username and password",
  ],
  [
    "prints an auth that is not an object",
    () => answer({ auth: ["hunter2"] }),
    "it printed an auth that is not an object",
  ],
];
for (const [sentence, fail, says] of failures)
  test(`a plugin that ${sentence} returns no credentials, and one log line says so without its output`, async () => {
    const { program, log, loginsOf } = nodeOf();
    program.answer = async () => fail();
    expect([await loginsOf("r.example/app"), await loginsOf("r.example/app")]).toEqual([[], []]);
    const warnings = log.lines.filter(({ level }) => level === "warn");
    expect(warnings.map(({ fields }) => fields)).toEqual([{ provider: "ecr", image: "r.example/app", why: says }]);
    expect(JSON.stringify(log.lines)).not.toContain("hunter2");
    program.answer = async () => answer();
    expect(await loginsOf("r.example/app")).toEqual(["r.example u:p"]);
  });

test("a plugin with tokenAttributes receives the pod's account, and its credentials belong to that account", async () => {
  const { runs, getCredentials } = nodeOf({ tokenAttributes: attributes });
  const logins = await getCredentials(pod("web", "robot"), "r.example/app", new AbortController().signal);
  expect(runs[0]?.request).toMatchObject({
    serviceAccountToken: "token of web",
    serviceAccountAnnotations: { role: "r" },
  });
  expect(logins[0]?.[1].owner).toEqual({ kind: "serviceAccount", uid: "uid", namespace: "shop", name: "robot" });
});

test("a response is cached per account or per token, as cacheType says", async () => {
  for (const [cacheType, times] of [
    ["ServiceAccount", 1],
    ["Token", 2],
  ] as const) {
    const { loginsOf, requestedImages } = nodeOf({ tokenAttributes: { ...attributes, cacheType } });
    for (const name of ["a", "b", "a"]) await loginsOf("r.example/app", pod(name, "robot"));
    expect({ cacheType, runs: requestedImages().length }).toEqual({ cacheType, runs: times });
  }
});

test("service accounts do not share a cached response", async () => {
  const { loginsOf, requestedImages } = nodeOf({ tokenAttributes: attributes });
  for (const account of ["robot", "other"]) await loginsOf("r.example/app", pod("web", account));
  expect(requestedImages()).toHaveLength(2);
});

test("a plugin runs for a pod without an account only if requireServiceAccount is false", async () => {
  const strict = nodeOf({ tokenAttributes: attributes });
  expect([await strict.loginsOf("r.example/app"), strict.requestedImages()]).toEqual([[], []]);
  const { loginsOf, runs } = nodeOf({ tokenAttributes: { ...attributes, requireServiceAccount: false } });
  expect(await loginsOf("r.example/app")).toEqual(["r.example u:p"]);
  expect(Object.keys(runs[0]?.request ?? {})).toEqual(["kind", "apiVersion", "image"]);
});

test("a plugin does not run for an account that lacks a required annotation, and nothing is logged", async () => {
  const { accounts, log, loginsOf, requestedImages, accountFor } = nodeOf({ tokenAttributes: attributes });
  Object.assign(accounts, { accountOf: async () => undefined });
  expect([await loginsOf("r.example/app", pod("web", "robot")), requestedImages(), log.takeLines()]).toEqual([
    [],
    [],
    [],
  ]);
  expect(await accountFor(pod("web", "robot"), "r.example/app")).toBeUndefined();
});

test("the pull continues without credentials if no token can be requested", async () => {
  const { accounts, log, loginsOf } = nodeOf({ tokenAttributes: attributes });
  Object.assign(accounts, {
    tokenOf: () => Promise.reject(new CredentialProviderError("NO_ACCOUNT", "audience r not found in pod spec")),
  });
  expect(await loginsOf("r.example/app", pod("web", "robot"))).toEqual([]);
  expect(log.takeLines()).toHaveLength(1);
});

test("the token itself is rejected as a password unless cacheType is Token", async () => {
  for (const [cacheType, logins] of [
    ["ServiceAccount", []],
    ["Token", ["r.example u:token of web"]],
  ] as const) {
    const { program, loginsOf } = nodeOf({ tokenAttributes: { ...attributes, cacheType } });
    program.answer = async ({ serviceAccountToken: password }) =>
      answer({ auth: { "r.example": { username: "u", password } } });
    expect(await loginsOf("r.example/app", pod("web", "robot"))).toEqual([...logins]);
  }
});

test("the cache is bounded", async () => {
  const { loginsOf, requestedImages } = nodeOf();
  for (let n = 0; n <= 1_000; n++) await loginsOf(`r.example/app-${n}`);
  requestedImages();
  await loginsOf("r.example/app-1");
  await loginsOf("r.example/app-0");
  expect(requestedImages()).toEqual(["r.example/app-0"]);
});

test("a failure is logged again after a success, and not if only its message differs", async () => {
  const { program, log, loginsOf } = nodeOf();
  const fail = (stderr: string) => {
    program.answer = () => Promise.reject(new ExecError(["ecr"], 1, stderr, "ecr failed"));
  };
  const warnings = () => log.takeLines().filter((line) => line.startsWith("warn"));
  fail("request 1");
  await loginsOf("r.example/a");
  fail("request 2");
  await loginsOf("r.example/b");
  expect(warnings()).toHaveLength(1);
  program.answer = async () => answer();
  await loginsOf("r.example/c");
  fail("request 3");
  await loginsOf("r.example/d");
  expect(warnings()).toHaveLength(1);
});

test("a programming error is not treated as a plugin failure", async () => {
  const { program, log, loginsOf } = nodeOf();
  program.answer = () => Promise.reject(new TypeError("undefined is not an object"));
  const failure: unknown = await loginsOf("r.example/a").catch((error: unknown) => error);
  expect([failure, log.takeLines()]).toEqual([expect.any(TypeError), []]);
});
