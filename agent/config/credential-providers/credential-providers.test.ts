import { expect, test } from "bun:test";
import { describeProblem } from "../problem.ts";
import { findProviders } from "./credential-providers.ts";

/** Files in memory; those below `/d` are a folder. */
function filesOf(contents: Readonly<Record<string, string>>) {
  const names = Object.keys(contents)
    .filter((path) => path.startsWith("/d/"))
    .map((path) => path.slice(3));
  return {
    read: async (path: string) => contents[path] ?? Promise.reject(new Error("there is no such file")),
    list: async (path: string) => (path === "/d" ? names.map((name) => ({ name, kind: "file" })) : undefined),
  };
}
const find = (
  file: string,
  contents: Readonly<Record<string, string>> = {},
  { binDir = "/bin", mayUseTokens = true } = {},
) => findProviders({ file, binDir, mayUseTokens }, filesOf(contents));
const head = (version = "v1") => `apiVersion: kubelet.config.k8s.io/${version}\nkind: CredentialProviderConfig\n`;
const provider = (changes: Readonly<Record<string, unknown>> = {}) => ({
  name: "ecr",
  matchImages: ["*.ecr.example"],
  defaultCacheDuration: "12h",
  apiVersion: "credentialprovider.kubelet.k8s.io/v1",
  ...changes,
});
const tokens = (changes: Readonly<Record<string, unknown>> = {}) =>
  provider({
    tokenAttributes: {
      serviceAccountTokenAudience: "ecr",
      cacheType: "Token",
      requireServiceAccount: true,
      ...changes,
    },
  });
const fileOf = (...providers: readonly unknown[]) => `${head()}providers: ${JSON.stringify(providers)}\n`;

test("without the flags there are none, and one of them needs the other", async () => {
  expect(await find("", {}, { binDir: "" })).toEqual({ config: undefined, problems: [] });
  expect((await find("", {})).problems.map(describeProblem)).toEqual([
    "--image-credential-provider-bin-dir: needs --image-credential-provider-config too",
  ]);
  expect((await find("/c", { "/c": fileOf(provider()) }, { binDir: "" })).problems.map(describeProblem)).toEqual([
    "--image-credential-provider-config: needs --image-credential-provider-bin-dir too",
  ]);
});

test("a file is read, with what it leaves out", async () => {
  const text = `${head()}providers:
- name: ecr
  matchImages: ["*.ecr.example"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env:
  - {name: REGION, value: north}
- name: other
  matchImages: [registry.example:5000/team]
  defaultCacheDuration: "0"
  apiVersion: credentialprovider.kubelet.k8s.io/v1beta1
`;
  expect((await find("/c", { "/c": text })).config).toEqual({
    binDir: "/bin",
    providers: [
      {
        name: "ecr",
        matchImages: ["*.ecr.example"],
        defaultCacheDurationMs: 12 * 3_600_000,
        apiVersion: "credentialprovider.kubelet.k8s.io/v1",
        args: ["get"],
        env: { REGION: "north" },
      },
      {
        name: "other",
        matchImages: ["registry.example:5000/team"],
        defaultCacheDurationMs: 0,
        apiVersion: "credentialprovider.kubelet.k8s.io/v1beta1",
        args: [],
        env: {},
      },
    ],
  });
});

test("the files of a folder are read in the order of their names, whatever else lies there", async () => {
  const contents = {
    "/d/b.yaml": fileOf(provider({ name: "b" })),
    "/d/a.json": JSON.stringify({
      apiVersion: "kubelet.config.k8s.io/v1alpha1",
      kind: "CredentialProviderConfig",
      providers: [provider({ name: "a" })],
    }),
    "/d/c.yml": `${head("v1beta1")}providers: ${JSON.stringify([provider({ name: "c" })])}`,
    "/d/README": "none",
  };
  const { config, problems } = await find("/d", contents);
  expect([config?.providers.map(({ name }) => name), problems]).toEqual([["a", "b", "c"], []]);
});

test("what a token is asked for is read", async () => {
  const { config } = await find("/c", {
    "/c": fileOf(tokens({ requiredServiceAccountAnnotationKeys: ["example.com/Role"] })),
  });
  expect(config?.providers[0]?.tokenAttributes).toEqual({
    serviceAccountTokenAudience: "ecr",
    cacheType: "Token",
    requireServiceAccount: true,
    requiredServiceAccountAnnotationKeys: ["example.com/Role"],
    optionalServiceAccountAnnotationKeys: [],
  });
});

const without = (field: string) => Object.fromEntries(Object.entries(provider()).filter(([name]) => name !== field));
const bad: readonly [sentence: string, text: string, problems: readonly string[]][] = [
  ["nothing", "", ["/c: is empty, must begin with apiVersion and kind"]],
  [
    "another kind",
    "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n",
    ['/c:2: kind: found "KubeletConfiguration", must be "CredentialProviderConfig"'],
  ],
  [
    "another version",
    "apiVersion: kubelet.config.k8s.io/v2\nkind: CredentialProviderConfig\n",
    [
      '/c:1: apiVersion: found "kubelet.config.k8s.io/v2", must be one of kubelet.config.k8s.io/v1, kubelet.config.k8s.io/v1beta1, kubelet.config.k8s.io/v1alpha1',
    ],
  ],
  ["no providers", head(), ["/c:1: providers: missing, has to be given"]],
  ["an empty list of them", fileOf(), ["/c:3: providers: found an empty list, must have one element at least"]],
  [
    "a field that nobody knows",
    fileOf(provider({ matchImage: [] })),
    ["/c:3: providers[0].matchImage: unknown field, did you mean matchImages?"],
  ],
  ["no name", fileOf(without("name")), ["/c:3: providers[0].name: missing, has to be given"]],
  [
    "a name with a separator",
    fileOf(provider({ name: "../sh" })),
    ['/c:3: providers[0].name: found "../sh", must be the name of a file, without a / in it'],
  ],
  [
    "a name that is the folder",
    fileOf(provider({ name: ".." })),
    ['/c:3: providers[0].name: found "..", must be the name of a file'],
  ],
  [
    "a name with a space",
    fileOf(provider({ name: "a b" })),
    ['/c:3: providers[0].name: found "a b", must not have spaces in it'],
  ],
  ["a name twice", fileOf(provider(), provider()), ['/c:3: providers[1].name: found "ecr", which /c:3 names already']],
  [
    "no images",
    fileOf(provider({ matchImages: [] })),
    ["/c:3: providers[0].matchImages: found an empty list, must have one element at least"],
  ],
  [
    "an image that is none",
    fileOf(provider({ matchImages: ["a b"] })),
    ['/c:3: providers[0].matchImages[0]: found "a b", must be a registry such as *.registry.example:5000/team'],
  ],
  [
    "a port that is none",
    fileOf(provider({ matchImages: ["a:b"] })),
    ['/c:3: providers[0].matchImages[0]: found "a:b", must be a registry such as *.registry.example:5000/team'],
  ],
  [
    "no duration",
    fileOf(without("defaultCacheDuration")),
    ["/c:3: providers[0].defaultCacheDuration: missing, has to be given"],
  ],
  [
    "a number as a duration",
    fileOf(provider({ defaultCacheDuration: 5 })),
    ["/c:3: providers[0].defaultCacheDuration: found 5, must be a text"],
  ],
  [
    "a duration that is negative",
    fileOf(provider({ defaultCacheDuration: "-1s" })),
    ['/c:3: providers[0].defaultCacheDuration: found "-1s", must be 0s or longer'],
  ],
  [
    "another version of the provider",
    fileOf(provider({ apiVersion: "v1" })),
    [
      '/c:3: providers[0].apiVersion: found "v1", must be one of credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1, credentialprovider.kubelet.k8s.io/v1alpha1',
    ],
  ],
  [
    "a variable without a value",
    fileOf(provider({ env: [{ name: "A" }] })),
    ["/c:3: providers[0].env[0].value: missing, has to be given"],
  ],
  [
    "tokens for whom nobody knows",
    fileOf(tokens({ serviceAccountTokenAudience: "" })),
    ['/c:3: providers[0].tokenAttributes.serviceAccountTokenAudience: found "", must not be empty'],
  ],
  [
    "tokens without a word on their cache",
    fileOf(tokens({ cacheType: null })),
    ["/c:3: providers[0].tokenAttributes.cacheType: missing, has to be given"],
  ],
  [
    "annotations of no account",
    fileOf(tokens({ requireServiceAccount: false, requiredServiceAccountAnnotationKeys: ["a"] })),
    ["/c:3: providers[0].tokenAttributes.requiredServiceAccountAnnotationKeys: needs requireServiceAccount to be true"],
  ],
  [
    "an annotation twice",
    fileOf(tokens({ requiredServiceAccountAnnotationKeys: ["a"], optionalServiceAccountAnnotationKeys: ["a"] })),
    ["/c:3: providers[0].tokenAttributes: names the annotation a twice"],
  ],
  [
    "an annotation that is none",
    fileOf(tokens({ optionalServiceAccountAnnotationKeys: ["a b"] })),
    [
      '/c:3: providers[0].tokenAttributes.optionalServiceAccountAnnotationKeys[0]: found "a b", must be the key of an annotation, such as example.com/role',
    ],
  ],
  [
    "tokens for a provider of another version",
    fileOf({ ...tokens(), apiVersion: "credentialprovider.kubelet.k8s.io/v1beta1" }),
    ["/c:3: providers[0].tokenAttributes: needs apiVersion credentialprovider.kubelet.k8s.io/v1"],
  ],
  [
    "tokens in an earlier file",
    fileOf(tokens()).replace("io/v1\n", "io/v1beta1\n"),
    [
      "/c:3: providers[0].tokenAttributes: unknown field, known are name, matchImages, defaultCacheDuration, apiVersion, args, env",
    ],
  ],
];
for (const [sentence, text, problems] of bad)
  test(`a file is refused that has ${sentence}`, async () => {
    const found = await find("/c", { "/c": text });
    expect(found.config).toBeUndefined();
    expect(found.problems.map(describeProblem)).toEqual([...problems]);
  });

test("tokens need their feature gate", async () => {
  const { problems } = await find("/c", { "/c": fileOf(tokens()) }, { mayUseTokens: false });
  expect(problems.map(describeProblem)).toEqual([
    "/c:3: providers[0].tokenAttributes: needs the feature gate KubeletServiceAccountTokenForCredentialProviders",
  ]);
});

test("what is not there, or is no YAML, is said", async () => {
  expect((await find("/gone")).problems.map(describeProblem)).toEqual(["/gone: cannot be read: there is no such file"]);
  expect((await find("/d", { "/d/x.conf": "" })).problems.map(describeProblem)).toEqual([
    "/d: holds no .json, .yaml or .yml: it has to have a CredentialProviderConfig",
  ]);
  const [problem] = (await find("/c", { "/c": "a: [" })).problems;
  expect(problem?.where).toMatch(/^\/c:/);
});
