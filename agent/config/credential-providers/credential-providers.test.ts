import { expect, test } from "bun:test";
import { describeProblem } from "../problem.ts";
import { loadCredentialProviders } from "./credential-providers.ts";

/** Files in memory; `/d` is a directory. */
function filesOf(contents: Readonly<Record<string, string>>) {
  const names = Object.keys(contents)
    .filter((path) => path.startsWith("/d/"))
    .map((path) => path.slice(3));
  return {
    read: async (path: string) => contents[path] ?? Promise.reject(new Error("there is no such file")),
    list: async (path: string) => (path === "/d" ? names.map((name) => ({ name, kind: "file" })) : undefined),
  };
}
const load = (
  file: string,
  contents: Readonly<Record<string, string>> = {},
  { binDir = "/bin", allowsTokens = true } = {},
) => loadCredentialProviders({ file, binDir, allowsTokens }, filesOf(contents));
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

test("without the flags there are no plugins, and each flag requires the other", async () => {
  expect(await load("", {}, { binDir: "" })).toEqual({ config: undefined, problems: [] });
  expect((await load("", {})).problems.map(describeProblem)).toEqual([
    "--image-credential-provider-bin-dir: needs --image-credential-provider-config too",
  ]);
  expect((await load("/c", { "/c": fileOf(provider()) }, { binDir: "" })).problems.map(describeProblem)).toEqual([
    "--image-credential-provider-config: needs --image-credential-provider-bin-dir too",
  ]);
});

test("a file is read and its absent fields get defaults", async () => {
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
  expect((await load("/c", { "/c": text })).config).toEqual({
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

test("the files of a directory are read in lexical order, and other files are ignored", async () => {
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
  const { config, problems } = await load("/d", contents);
  expect([config?.providers.map(({ name }) => name), problems]).toEqual([["a", "b", "c"], []]);
});

test("tokenAttributes are read", async () => {
  const { config } = await load("/c", {
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
const invalidFiles: readonly [sentence: string, text: string, problems: readonly string[]][] = [
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
  ["no providers", head(), ["/c:1: providers: missing, must be set"]],
  ["an empty list of providers", fileOf(), ["/c:3: providers: found an empty list, must have at least one element"]],
  [
    "an unknown field",
    fileOf(provider({ matchImage: [] })),
    ["/c:3: providers[0].matchImage: unknown field, did you mean matchImages?"],
  ],
  ["no name", fileOf(without("name")), ["/c:3: providers[0].name: missing, must be set"]],
  [
    "a name with a slash",
    fileOf(provider({ name: "../sh" })),
    ['/c:3: providers[0].name: found "../sh", must be a file name without /'],
  ],
  [
    "a name that is the directory",
    fileOf(provider({ name: ".." })),
    ['/c:3: providers[0].name: found "..", must be a file name'],
  ],
  [
    "a name with a space",
    fileOf(provider({ name: "a b" })),
    ['/c:3: providers[0].name: found "a b", must not contain spaces'],
  ],
  [
    "a repeated name",
    fileOf(provider(), provider()),
    ['/c:3: providers[1].name: found "ecr", which is already used at /c:3'],
  ],
  [
    "no matchImages",
    fileOf(provider({ matchImages: [] })),
    ["/c:3: providers[0].matchImages: found an empty list, must have at least one element"],
  ],
  [
    "an invalid image pattern",
    fileOf(provider({ matchImages: ["a b"] })),
    ['/c:3: providers[0].matchImages[0]: found "a b", must be a registry such as *.registry.example:5000/team'],
  ],
  [
    "an invalid port",
    fileOf(provider({ matchImages: ["a:b"] })),
    ['/c:3: providers[0].matchImages[0]: found "a:b", must be a registry such as *.registry.example:5000/team'],
  ],
  [
    "no cache duration",
    fileOf(without("defaultCacheDuration")),
    ["/c:3: providers[0].defaultCacheDuration: missing, must be set"],
  ],
  [
    "a number as a duration",
    fileOf(provider({ defaultCacheDuration: 5 })),
    ["/c:3: providers[0].defaultCacheDuration: found 5, must be a string"],
  ],
  [
    "a negative duration",
    fileOf(provider({ defaultCacheDuration: "-1s" })),
    ['/c:3: providers[0].defaultCacheDuration: found "-1s", must be 0s or longer'],
  ],
  [
    "an unknown apiVersion of the plugin",
    fileOf(provider({ apiVersion: "v1" })),
    [
      '/c:3: providers[0].apiVersion: found "v1", must be one of credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1, credentialprovider.kubelet.k8s.io/v1alpha1',
    ],
  ],
  [
    "a variable without a value",
    fileOf(provider({ env: [{ name: "A" }] })),
    ["/c:3: providers[0].env[0].value: missing, must be set"],
  ],
  [
    "an empty serviceAccountTokenAudience",
    fileOf(tokens({ serviceAccountTokenAudience: "" })),
    ['/c:3: providers[0].tokenAttributes.serviceAccountTokenAudience: found "", must not be empty'],
  ],
  [
    "tokenAttributes without requireServiceAccount",
    fileOf(tokens({ requireServiceAccount: null })),
    ["/c:3: providers[0].tokenAttributes.requireServiceAccount: missing, must be set"],
  ],
  [
    "tokenAttributes without cacheType",
    fileOf(tokens({ cacheType: null })),
    ["/c:3: providers[0].tokenAttributes.cacheType: missing, must be set"],
  ],
  [
    "required annotations without requireServiceAccount",
    fileOf(tokens({ requireServiceAccount: false, requiredServiceAccountAnnotationKeys: ["a"] })),
    ["/c:3: providers[0].tokenAttributes.requiredServiceAccountAnnotationKeys: needs requireServiceAccount to be true"],
  ],
  [
    "a repeated annotation",
    fileOf(tokens({ requiredServiceAccountAnnotationKeys: ["a"], optionalServiceAccountAnnotationKeys: ["a"] })),
    ["/c:3: providers[0].tokenAttributes: names the annotation a twice"],
  ],
  [
    "an invalid annotation key",
    fileOf(tokens({ optionalServiceAccountAnnotationKeys: ["a b"] })),
    [
      '/c:3: providers[0].tokenAttributes.optionalServiceAccountAnnotationKeys[0]: found "a b", must be an annotation key such as example.com/role',
    ],
  ],
  [
    "tokenAttributes with an old apiVersion of the plugin",
    fileOf({ ...tokens(), apiVersion: "credentialprovider.kubelet.k8s.io/v1beta1" }),
    ["/c:3: providers[0].tokenAttributes: needs apiVersion credentialprovider.kubelet.k8s.io/v1"],
  ],
  [
    "tokenAttributes in an old file version",
    fileOf(tokens()).replace("io/v1\n", "io/v1beta1\n"),
    [
      "/c:3: providers[0].tokenAttributes: unknown field, known are name, matchImages, defaultCacheDuration, apiVersion, args, env",
    ],
  ],
];
for (const [sentence, text, problems] of invalidFiles)
  test(`a file is rejected for ${sentence}`, async () => {
    const found = await load("/c", { "/c": text });
    expect(found.config).toBeUndefined();
    expect(found.problems.map(describeProblem)).toEqual([...problems]);
  });

test("tokenAttributes require their feature gate", async () => {
  const { problems } = await load("/c", { "/c": fileOf(tokens()) }, { allowsTokens: false });
  expect(problems.map(describeProblem)).toEqual([
    "/c:3: providers[0].tokenAttributes: needs the feature gate KubeletServiceAccountTokenForCredentialProviders",
  ]);
});

test("a missing file, an empty directory and invalid YAML are reported", async () => {
  expect((await load("/gone")).problems.map(describeProblem)).toEqual(["/gone: cannot be read: there is no such file"]);
  expect((await load("/d", { "/d/x.conf": "" })).problems.map(describeProblem)).toEqual([
    "/d: contains no .json, .yaml or .yml file: it must contain a CredentialProviderConfig",
  ]);
  const [problem] = (await load("/c", { "/c": "a: [" })).problems;
  expect(problem?.where).toMatch(/^\/c:/);
});
