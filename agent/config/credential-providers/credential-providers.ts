import { join } from "node:path/posix";
import {
  type CredentialProvider,
  providerApiVersions,
  type TokenAttributes,
} from "../../../proto/kubelet/credential-provider.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { getAt, type Node, showNode } from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import type { ConfigFiles } from "../kubelet-config/config-file.ts";
import { describeCause, type Problem } from "../problem.ts";
import { flag, list, oneOf, type Read, struct, text } from "../struct-reading.ts";

/** The programs that give the node logins for registries, and where they are. */
export interface ProvidersConfig {
  /** An absolute path. */
  readonly binDir: string;
  readonly providers: readonly CredentialProvider[];
}

/** What the two flags say, absolute; `""` is a flag that was not given. */
export interface ProvidersPlace {
  readonly file: string;
  readonly binDir: string;
  /** Providers may ask for tokens of service accounts. */
  readonly mayUseTokens: boolean;
}

export interface FoundProviders {
  /** Undefined where none are asked for, or something is wrong. */
  readonly config: ProvidersConfig | undefined;
  readonly problems: readonly Problem[];
}

const FILE_FLAG = "--image-credential-provider-config";
const BIN_FLAG = "--image-credential-provider-bin-dir";
const longestFile = 1 << 20;

/** Reads the file, or every `.json`, `.yaml` and `.yml` of the folder in the order of their names, as the kubelet does. */
export async function findProviders(
  { file, binDir, mayUseTokens }: ProvidersPlace,
  files: ConfigFiles,
): Promise<FoundProviders> {
  if (file === "" && binDir === "") return { config: undefined, problems: [] };
  const [missing, given] = file === "" ? [FILE_FLAG, BIN_FLAG] : [BIN_FLAG, FILE_FLAG];
  if (file === "" || binDir === "")
    return { config: undefined, problems: [{ where: given, field: "", message: `needs ${missing} too` }] };
  const problems: Problem[] = [];
  const refuse = (problem: Problem): undefined => void problems.push(problem);
  const providers: Named[] = [];
  for (const path of await pathsOf(file, files, refuse)) providers.push(...(await readFile(path, files, refuse)));
  for (const named of providers) problems.push(...problemsOf(named, providers, mayUseTokens));
  const config = { binDir, providers: providers.map(({ provider }) => provider) };
  return { config: problems.length === 0 ? config : undefined, problems };
}

type RefuseProblem = (problem: Problem) => undefined;

async function pathsOf(
  file: string,
  { list: entriesOf }: ConfigFiles,
  refuse: RefuseProblem,
): Promise<readonly string[]> {
  const entries = await entriesOf(file).catch((error: unknown) => {
    refuse({ where: file, field: "", message: `cannot be listed: ${describeCause(error)}` });
    return [];
  });
  // What is no folder is the file itself.
  if (entries === undefined) return [file];
  const names = entries.filter(({ name, kind }) => kind !== "directory" && /\.(json|ya?ml)$/.test(name));
  if (names.length === 0)
    refuse({
      where: file,
      field: "",
      message: "holds no .json, .yaml or .yml: it has to have a CredentialProviderConfig",
    });
  return names.map(({ name }) => join(file, name)).toSorted();
}

/** A provider, and where it was named. */
interface Named {
  readonly provider: CredentialProvider;
  readonly where: string;
  readonly field: string;
}

async function readFile(path: string, files: ConfigFiles, refuse: RefuseProblem): Promise<readonly Named[]> {
  const root = await readRoot(path, files, refuse);
  if (root === undefined) return [];
  const version = versionOf(root, path, refuse);
  if (version === undefined) return [];
  const read = struct<{ apiVersion: string; kind: string; providers: readonly FileProvider[] }>({
    apiVersion: { read: text() },
    kind: { read: text() },
    providers: { read: list(version === "v1" ? providerOfV1 : providerBefore, { isFilled: true }) },
  });
  const whole = read(root, "", refuse);
  const nodes = getAt(root, ["providers"]);
  return (whole?.providers ?? []).map(({ defaultCacheDuration, env, ...rest }, index) => ({
    provider: {
      ...rest,
      defaultCacheDurationMs: parseDuration(defaultCacheDuration) ?? 0,
      env: Object.fromEntries(env.map(({ name, value }) => [name, value])),
    },
    where: (nodes?.kind === "list" ? nodes.items[index]?.where : undefined) ?? path,
    field: `providers[${index}]`,
  }));
}

async function readRoot(path: string, files: ConfigFiles, refuse: RefuseProblem): Promise<Node | undefined> {
  // Loaded only here: most nodes have no such file.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const root = parseYaml(await files.read(path, longestFile), path);
    return root ?? refuse({ where: path, field: "", message: "is empty, must begin with apiVersion and kind" });
  } catch (error) {
    if (error instanceof YamlError) for (const problem of error.problems) refuse({ ...problem, field: "" });
    else
      refuse({ where: path, field: "", message: `cannot be read: ${describeCause(error).replace(`${path} `, "it ")}` });
    return undefined;
  }
}

const KIND = "CredentialProviderConfig";
const GROUP = "kubelet.config.k8s.io";

function versionOf(root: Node, path: string, refuse: RefuseProblem): string | undefined {
  const wrong = (field: string, expected: string): undefined => {
    const found = getAt(root, [field]);
    refuse({
      where: found?.where ?? path,
      field,
      message: `${found === undefined ? "missing" : `found ${showNode(found)}`}, must be ${expected}`,
    });
  };
  const textIn = (field: string) => {
    const node = getAt(root, [field]);
    return node?.kind === "scalar" ? node.value : undefined;
  };
  const version = ["v1", "v1beta1", "v1alpha1"].find((each) => textIn("apiVersion") === `${GROUP}/${each}`);
  if (textIn("kind") !== KIND) wrong("kind", JSON.stringify(KIND));
  if (version === undefined) wrong("apiVersion", `one of ${GROUP}/v1, ${GROUP}/v1beta1, ${GROUP}/v1alpha1`);
  return textIn("kind") === KIND ? version : undefined;
}

type FileProvider = Omit<CredentialProvider, "defaultCacheDurationMs" | "env"> & {
  readonly defaultCacheDuration: string;
  readonly env: readonly { readonly name: string; readonly value: string }[];
};

const providerFields = {
  name: { read: text(nameProblem) },
  matchImages: { read: list(text(placeProblem), { isFilled: true }) },
  defaultCacheDuration: { read: text(durationProblem) },
  apiVersion: { read: oneOf(providerApiVersions) },
  args: { read: list(text()), byDefault: [] },
  env: {
    read: list(struct<{ name: string; value: string }>({ name: { read: text() }, value: { read: text() } })),
    byDefault: [],
  },
};

const tokenAttributes = struct<TokenAttributes>({
  serviceAccountTokenAudience: { read: text((found) => (found === "" ? "must not be empty" : undefined)) },
  cacheType: { read: oneOf(["ServiceAccount", "Token"]) },
  requireServiceAccount: { read: flag },
  requiredServiceAccountAnnotationKeys: { read: list(text(keyProblem)), byDefault: [] },
  optionalServiceAccountAnnotationKeys: { read: list(text(keyProblem)), byDefault: [] },
});

const providerOfV1: Read<FileProvider> = struct<FileProvider>({
  ...providerFields,
  tokenAttributes: { read: tokenAttributes, isOptional: true },
});
/** The earlier versions of the file know of no tokens. */
const providerBefore: Read<FileProvider> = struct<Omit<FileProvider, "tokenAttributes">>(providerFields);

/** It is run from the folder of the programs, and from nowhere else. */
function nameProblem(name: string): string | undefined {
  if (name === "" || name === "." || name === "..") return "must be the name of a file";
  if (/[/\0]/.test(name)) return "must be the name of a file, without a / in it";
  return name.includes(" ") ? "must not have spaces in it" : undefined;
}

/** What Go reads as the host of a URL: the port, if any, a number, and no control character or space. */
function placeProblem(place: string): string | undefined {
  const [host = ""] = place.split(/[/?#]/);
  const isPlace = /^[^\s<>"{}|\\^`%@]*$/.test(host) && /^[^:]*(:\d*)?$|^\[[0-9a-fA-F:.]+\](:\d*)?$/.test(host);
  const hasControls = [...place].some((char) => char < " " || char === "\x7f");
  return isPlace && !hasControls ? undefined : "must be a registry such as *.registry.example:5000/team";
}

function durationProblem(duration: string): string | undefined {
  const ms = parseDuration(duration);
  if (ms === undefined) return "must be a duration such as 300ms or 1m30s";
  return ms < 0 ? "must be 0s or longer" : undefined;
}

/** A qualified name, whatever its case. */
function keyProblem(key: string): string | undefined {
  const part = "[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?";
  const prefix = "(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/";
  const isKey = new RegExp(`^(${prefix})?${part}$`).test(key.toLowerCase());
  return isKey ? undefined : "must be the key of an annotation, such as example.com/role";
}

/** What of a provider that is right by itself contradicts the others, or itself. */
function problemsOf(
  { provider, where, field }: Named,
  all: readonly Named[],
  mayUseTokens: boolean,
): readonly Problem[] {
  const { name, apiVersion, tokenAttributes: attributes } = provider;
  const twin = all.find((each) => each.provider.name === name);
  const say = (below: string, message: string): Problem => ({ where, field: `${field}.${below}`, message });
  const problems: (Problem | false)[] = [
    twin?.provider !== provider && say("name", `found ${JSON.stringify(name)}, which ${twin?.where} names already`),
  ];
  if (attributes !== undefined) {
    const { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional } =
      attributes;
    const keys = [...required, ...optional];
    const twice = keys.find((key, index) => keys.indexOf(key) !== index);
    const at = (below: string) => `tokenAttributes.${below}`;
    problems.push(
      !mayUseTokens &&
        say("tokenAttributes", "needs the feature gate KubeletServiceAccountTokenForCredentialProviders"),
      apiVersion !== providerApiVersions[0] && say("tokenAttributes", `needs apiVersion ${providerApiVersions[0]}`),
      !attributes.requireServiceAccount &&
        required.length > 0 &&
        say(at("requiredServiceAccountAnnotationKeys"), "needs requireServiceAccount to be true"),
      twice !== undefined && say("tokenAttributes", `names the annotation ${twice} twice`),
    );
  }
  return problems.filter((problem) => problem !== false);
}
