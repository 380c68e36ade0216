import { join } from "node:path/posix";
import {
  type CredentialProvider,
  providerApiVersions,
  type TokenAttributes,
} from "../../../proto/kubelet/credential-provider.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { describeNode, getAt, toJson, type ValueNode } from "../../../proto/yaml/value-node.ts";
import { decodeFields } from "../fields/decode-fields.ts";
import { parseDuration, validDurationMs } from "../fields/duration.ts";
import type { FieldRule } from "../fields/field-rule.ts";
import { createFieldTree } from "../fields/field-tree.ts";
import type { ConfigFiles } from "../kubelet-config/config-file.ts";
import { describeCause, type Problem } from "../problem.ts";

/** The credential provider plugins of the node, and the directory of their binaries. */
export interface CredentialProvidersConfig {
  /** An absolute path. */
  readonly binDir: string;
  readonly providers: readonly CredentialProvider[];
}

/** The values of the two flags as absolute paths; `""` for a flag that is not set. */
export interface CredentialProviderFlags {
  readonly file: string;
  readonly binDir: string;
  /** Whether plugins may request service account tokens (a feature gate). */
  readonly allowsTokens: boolean;
}

export interface CredentialProvidersResult {
  /** Undefined when no plugins are configured, or when there are problems. */
  readonly config: CredentialProvidersConfig | undefined;
  readonly problems: readonly Problem[];
}

const FILE_FLAG = "--image-credential-provider-config";
const BIN_FLAG = "--image-credential-provider-bin-dir";
const MAX_FILE_BYTES = 1 << 20;

/** Reads the file, or all `.json`, `.yaml` and `.yml` files of the directory in lexical order, as the kubelet does. */
export async function loadCredentialProviders(
  { file, binDir, allowsTokens }: CredentialProviderFlags,
  files: ConfigFiles,
): Promise<CredentialProvidersResult> {
  if (file === "" && binDir === "") return { config: undefined, problems: [] };
  const [missing, given] = file === "" ? [FILE_FLAG, BIN_FLAG] : [BIN_FLAG, FILE_FLAG];
  if (file === "" || binDir === "")
    return { config: undefined, problems: [{ where: given, field: "", message: `needs ${missing} too` }] };
  const problems: Problem[] = [];
  const report = (problem: Problem): undefined => void problems.push(problem);
  const providers: LocatedProvider[] = [];
  for (const path of await pathsOf(file, files, report)) providers.push(...(await readFile(path, files, report)));
  for (const located of providers) problems.push(...problemsOf(located, providers, allowsTokens));
  const config = { binDir, providers: providers.map(({ provider }) => provider) };
  return { config: problems.length === 0 ? config : undefined, problems };
}

type ReportProblem = (problem: Problem) => undefined;

async function pathsOf(file: string, { list }: ConfigFiles, report: ReportProblem): Promise<readonly string[]> {
  const entries = await list(file).catch((error: unknown) => {
    report({ where: file, field: "", message: `cannot be listed: ${describeCause(error)}` });
    return [];
  });
  // A path that is not a directory is the file itself.
  if (entries === undefined) return [file];
  const names = entries.filter(({ name, kind }) => kind !== "directory" && /\.(json|ya?ml)$/.test(name));
  if (names.length === 0)
    report({
      where: file,
      field: "",
      message: "contains no .json, .yaml or .yml file: it must contain a CredentialProviderConfig",
    });
  return names.map(({ name }) => join(file, name)).toSorted();
}

/** A plugin with its location in the file, for messages. */
interface LocatedProvider {
  readonly provider: CredentialProvider;
  readonly where: string;
  readonly field: string;
}

async function readFile(path: string, files: ConfigFiles, report: ReportProblem): Promise<readonly LocatedProvider[]> {
  const root = await readRoot(path, files, report);
  if (root === undefined) return [];
  const version = versionOf(root, path, report);
  if (version === undefined) return [];
  const { node, problems } = decodeFields(root, createFieldTree(version === "v1" ? fieldsOfV1 : fieldsOfV1Beta1));
  for (const problem of problems) report(problem);
  const nodes = getAt(node, ["providers"]);
  if (problems.length > 0 || nodes?.kind !== "list") return [];
  return nodes.items.map((item, index) => ({
    // Every field was decoded to its type, and no required field is missing.
    provider: toProvider(toJson(item) as unknown as FileProvider),
    where: item.where,
    field: `providers[${index}]`,
  }));
}

async function readRoot(path: string, files: ConfigFiles, report: ReportProblem): Promise<ValueNode | undefined> {
  // Loaded on demand: most nodes have no such file.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const root = parseYaml(await files.read(path, MAX_FILE_BYTES), path);
    return root ?? report({ where: path, field: "", message: "is empty, must begin with apiVersion and kind" });
  } catch (error) {
    if (error instanceof YamlError) for (const problem of error.problems) report({ ...problem, field: "" });
    else
      report({ where: path, field: "", message: `cannot be read: ${describeCause(error).replace(`${path} `, "it ")}` });
    return undefined;
  }
}

const KIND = "CredentialProviderConfig";
const GROUP = "kubelet.config.k8s.io";

function versionOf(root: ValueNode, path: string, report: ReportProblem): string | undefined {
  const wrong = (field: string, expected: string): undefined => {
    const found = getAt(root, [field]);
    report({
      where: found?.where ?? path,
      field,
      message: `${found === undefined ? "missing" : `found ${describeNode(found)}`}, must be ${expected}`,
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

/** A provider in the file. Required fields are set, by `fieldsOfV1`. */
interface FileProvider extends Pick<CredentialProvider, "name" | "matchImages" | "apiVersion"> {
  readonly defaultCacheDuration: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly tokenAttributes?: FileTokenAttributes;
}

type AnnotationKeyLists = "requiredServiceAccountAnnotationKeys" | "optionalServiceAccountAnnotationKeys";
type FileTokenAttributes = Omit<TokenAttributes, AnnotationKeyLists> &
  Partial<Pick<TokenAttributes, AnnotationKeyLists>>;

const isRequired = true;

/** v1alpha1 and v1beta1 have no tokenAttributes. */
const fieldsOfV1Beta1: Readonly<Record<string, FieldRule>> = {
  apiVersion: { type: "string", isRequired },
  kind: { type: "string", isRequired },
  providers: { type: "[]struct", isRequired, isNonEmpty: true },
  "providers[].name": { type: "string", isRequired, problemOf: nameProblem },
  "providers[].matchImages": { type: "[]string", isRequired, isNonEmpty: true, problemOf: imagePatternProblem },
  "providers[].defaultCacheDuration": { type: "string", isRequired, problemOf: durationProblem },
  "providers[].apiVersion": { type: "string", isRequired, problemOf: problemUnlessOneOf(providerApiVersions) },
  "providers[].args": { type: "[]string" },
  "providers[].env": { type: "[]struct" },
  "providers[].env[].name": { type: "string", isRequired },
  "providers[].env[].value": { type: "string", isRequired },
};
const fieldsOfV1: Readonly<Record<string, FieldRule>> = {
  ...fieldsOfV1Beta1,
  "providers[].tokenAttributes": { type: "*struct" },
  "providers[].tokenAttributes.serviceAccountTokenAudience": {
    type: "string",
    isRequired,
    problemOf: (found) => (found === "" ? "must not be empty" : undefined),
  },
  "providers[].tokenAttributes.cacheType": {
    type: "string",
    isRequired,
    problemOf: problemUnlessOneOf(["ServiceAccount", "Token"]),
  },
  "providers[].tokenAttributes.requireServiceAccount": { type: "bool", isRequired },
  "providers[].tokenAttributes.requiredServiceAccountAnnotationKeys": { type: "[]string", problemOf: keyProblem },
  "providers[].tokenAttributes.optionalServiceAccountAnnotationKeys": { type: "[]string", problemOf: keyProblem },
};

function toProvider({
  defaultCacheDuration,
  args = [],
  env = [],
  tokenAttributes,
  ...rest
}: FileProvider): CredentialProvider {
  return {
    ...rest,
    args,
    defaultCacheDurationMs: validDurationMs(defaultCacheDuration),
    env: Object.fromEntries(env.map(({ name, value }) => [name, value])),
    ...(tokenAttributes !== undefined && {
      tokenAttributes: {
        requiredServiceAccountAnnotationKeys: [],
        optionalServiceAccountAnnotationKeys: [],
        ...tokenAttributes,
      },
    }),
  };
}

function problemUnlessOneOf(all: readonly string[]): (found: string) => string | undefined {
  return (found) => (all.includes(found) ? undefined : `must be one of ${all.join(", ")}`);
}

/** The name is that of a binary in the plugin directory, and must not lead out of it. */
function nameProblem(name: string): string | undefined {
  if (name === "" || name === "." || name === "..") return "must be a file name";
  if (/[/\0]/.test(name)) return "must be a file name without /";
  return name.includes(" ") ? "must not contain spaces" : undefined;
}

/** Accepts what Go parses as the host of a URL: an optional numeric port, no spaces and no control characters. */
function imagePatternProblem(pattern: string): string | undefined {
  const [host = ""] = pattern.split(/[/?#]/);
  const isHost = /^[^\s<>"{}|\\^`%@]*$/.test(host) && /^[^:]*(:\d*)?$|^\[[0-9a-fA-F:.]+\](:\d*)?$/.test(host);
  const hasControls = [...pattern].some((char) => char < " " || char === "\x7f");
  return isHost && !hasControls ? undefined : "must be a registry such as *.registry.example:5000/team";
}

function durationProblem(duration: string): string | undefined {
  const ms = parseDuration(duration);
  if (ms === undefined) return "must be a duration such as 300ms or 1m30s";
  return ms < 0 ? "must be 0s or longer" : undefined;
}

/** A qualified name in any case. */
function keyProblem(key: string): string | undefined {
  const part = "[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?";
  const prefix = "(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/";
  const isKey = new RegExp(`^(${prefix})?${part}$`).test(key.toLowerCase());
  return isKey ? undefined : "must be an annotation key such as example.com/role";
}

/** Checks a valid provider against the others, and its fields against each other. */
function problemsOf(
  { provider, where, field }: LocatedProvider,
  all: readonly LocatedProvider[],
  allowsTokens: boolean,
): readonly Problem[] {
  const { name, apiVersion, tokenAttributes: attributes } = provider;
  const first = all.find((each) => each.provider.name === name);
  const problemAt = (below: string, message: string): Problem => ({ where, field: `${field}.${below}`, message });
  const problems: (Problem | false)[] = [
    first?.provider !== provider &&
      problemAt("name", `found ${JSON.stringify(name)}, which is already used at ${first?.where}`),
  ];
  if (attributes !== undefined) {
    const { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional } =
      attributes;
    const keys = [...required, ...optional];
    const twice = keys.find((key, index) => keys.indexOf(key) !== index);
    const at = (below: string) => `tokenAttributes.${below}`;
    problems.push(
      !allowsTokens &&
        problemAt("tokenAttributes", "needs the feature gate KubeletServiceAccountTokenForCredentialProviders"),
      apiVersion !== providerApiVersions[0] &&
        problemAt("tokenAttributes", `needs apiVersion ${providerApiVersions[0]}`),
      !attributes.requireServiceAccount &&
        required.length > 0 &&
        problemAt(at("requiredServiceAccountAnnotationKeys"), "needs requireServiceAccount to be true"),
      twice !== undefined && problemAt("tokenAttributes", `names the annotation ${twice} twice`),
    );
  }
  return problems.filter((problem) => problem !== false);
}
