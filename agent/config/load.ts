import { resolve } from "node:path/posix";
import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import { DEFAULT_ORIGIN, emptyMap, getAt, type MapNode, mergePatch, toJson } from "../../proto/yaml/value-node.ts";
import type { Config } from "./config.ts";
import { type CredentialProviderFlags, loadCredentialProviders } from "./credential-providers/credential-providers.ts";
import { splitCommandLine } from "./flags/command-line.ts";
import { applyFlagOverrides, type FlagOverrides, flagWarnings, parseFlagOverrides } from "./flags/flag-overrides.ts";
import { flagGroups } from "./flags/flag-table.ts";
import { agentHelp, formatHelp } from "./flags/help.ts";
import { fieldAt } from "./kubelet-config/config-fields.ts";
import { type ConfigFiles, readConfigFile } from "./kubelet-config/config-file.ts";
import { applyDefaults } from "./kubelet-config/defaults.ts";
import { findDropIns } from "./kubelet-config/drop-ins.ts";
import { type Gates, resolveGates } from "./kubelet-config/gates.ts";
import { findConflicts } from "./kubelet-config/rules.ts";
import { checkValues } from "./kubelet-config/values.ts";
import { findWarnings } from "./kubelet-config/warnings.ts";
import { nodeNameOf } from "./node-name.ts";
import { ConfigError, type Problem } from "./problem.ts";
import { type FlagOnlySettings, flagValuesOf, freezeDeep, resolveConfig, resolveFlagOnlySettings } from "./resolve.ts";

/** The result of a command line: a configuration to start with, or a request for version or help. */
export type LoadResult =
  | {
      readonly kind: "config";
      readonly config: Config;
      /** The merged KubeletConfiguration: defaults, file, drop-ins and flags. */
      readonly kubelet: KubeletConfiguration;
      /** One line for each setting that has no effect yet, with what happens instead. */
      readonly warnings: readonly string[];
      /** Files below `--config-dir` that are not drop-ins; logged at debug level. */
      readonly skippedFiles: readonly string[];
    }
  | { readonly kind: "version"; readonly form: "line" | "raw" }
  | { readonly kind: "help"; readonly text: string };

export interface LoadOptions {
  /** The arguments without the program and its command. */
  readonly argv: readonly string[];
  readonly files: ConfigFiles;
  /** The absolute path that relative paths of flags start from. */
  readonly workingDirectory: string;
  /** The machine's hostname, the default of the node's name. */
  readonly hostname: string;
  /** How the user has called it, such as `kubelet`; errors about flags and the help name it. */
  readonly program?: string;
}

/**
 * Resolves flags over the drop-ins of `--config-dir` over the `--config` file over the defaults. The defaults are those
 * of a configuration file, which are the secure ones. They also apply without a file, where the kubelet's flag defaults
 * allow anonymous access, authorize every request and open a read-only port.
 *
 * @throws ConfigError with every problem found
 */
export async function loadConfig(options: LoadOptions): Promise<LoadResult> {
  const { argv, files, workingDirectory, hostname, program = "berth run" } = options;
  const commandLine = splitCommandLine(argv, flagGroups, options.program);
  const overrides = parseFlagOverrides(commandLine.given);
  const isRequested = (name: string) => String(overrides.byName.get(name)?.value ?? "false") !== "false";
  if (isRequested("help")) return { kind: "help", text: formatHelp(agentHelp(program, flagGroups)) };
  const flags = resolveFlagOnlySettings(overrides);
  const absolute = (path: string) => (path === "" ? "" : resolve(workingDirectory, path));
  const earlierProblems = [...commandLine.problems, ...overrides.problems, ...clusterProblems(flags)];
  const version = String(overrides.byName.get("version")?.value ?? "false");
  if ((version === "true" || version === "raw") && earlierProblems.length === 0)
    return { kind: "version", form: version === "raw" ? "raw" : "line" };

  const { nodeName, problems } = nodeNameOf(flags.hostnameOverride, hostname);
  const configFiles = await readFiles(absolute(flags.config), absolute(flags.configDir), overrides, files);
  const node = applyFlagOverrides(configFiles.node, overrides);
  const gates = gatesOf(node);
  const providers = await loadCredentialProviders(credentialProviderFlags(flags, gates, absolute), files);
  checkAll(node, gates, [...earlierProblems, ...problems, ...configFiles.problems, ...providers.problems]);
  const kubelet = freezeDeep(configurationOf(node));
  const { config: credentialProviders } = providers;
  const flagValues = flagValuesOf(overrides, kubelet);
  const config = freezeDeep(resolveConfig(kubelet, flags, { nodeName, credentialProviders, flagValues }, absolute));
  const warnings = [...flagWarnings(overrides), ...versionWarnings(version), ...findWarnings(node)];
  return { kind: "config", config, kubelet, warnings, skippedFiles: configFiles.skipped };
}

function credentialProviderFlags(
  flags: FlagOnlySettings,
  gates: Gates,
  absolute: (path: string) => string,
): CredentialProviderFlags {
  return {
    file: absolute(flags.imageCredentialProviderConfig),
    binDir: absolute(flags.imageCredentialProviderBinDir),
    allowsTokens: gates.KubeletServiceAccountTokenForCredentialProviders,
  };
}

function clusterProblems({ kubeconfig, inCluster }: FlagOnlySettings): readonly Problem[] {
  if (kubeconfig === "" || !inCluster) return [];
  return [{ where: "--in-cluster", field: "", message: "--kubeconfig is set too: set only one of them" }];
}

/** With `--version=v1.36.3-edge` the agent starts, and should report that version. */
function versionWarnings(version: string): readonly string[] {
  const isNamed = version.startsWith("v");
  return isNamed
    ? [`--version "${version}" is known but not implemented yet: the node reports the version that Berth implements`]
    : [];
}

interface ConfigFilesResult {
  readonly node: MapNode;
  readonly skipped: readonly string[];
  readonly problems: readonly Problem[];
}

/**
 * Reads the file and applies defaults, merges the drop-ins in order, then applies defaults to fields that a drop-in
 * removed. The order matters: a drop-in is checked against defaults of fields that the file does not mention.
 */
async function readFiles(
  file: string,
  folder: string,
  overrides: FlagOverrides,
  files: ConfigFiles,
): Promise<ConfigFilesResult> {
  const problems: Problem[] = [];
  const withDefaults = (map: MapNode) => applyDefaults(map, gatesOf(applyFlagOverrides(map, overrides)));
  const source =
    file === "" ? { node: emptyMap(DEFAULT_ORIGIN), problems: [] } : await readConfigFile(file, false, files);
  problems.push(...source.problems);
  let node = withDefaults(source.node);
  if (folder === "") return { node, skipped: [], problems };
  const dropIns = await findDropIns(folder, files);
  problems.push(...dropIns.problems);
  for (const dropIn of dropIns.files) {
    const patch = await readConfigFile(dropIn, true, files);
    problems.push(...patch.problems);
    const merged = mergePatch(node, patch.node);
    if (merged.kind === "map") node = merged;
  }
  return { node: withDefaults(node), skipped: dropIns.skipped, problems };
}

/** Throws all problems. Fields are checked against each other only when every value is valid on its own. */
function checkAll(kubelet: MapNode, gates: Gates, earlierProblems: readonly Problem[]): void {
  const problems = [...earlierProblems, ...checkValues(kubelet).map(omitFieldOfFlag)];
  if (problems.length > 0) throw new ConfigError(sortByLine(problems));
  const conflicts = findConflicts(configurationOf(kubelet), gates).map(({ fields, message }): Problem => {
    const origins = fields.map((field) => getAt(kubelet, field.split("."))?.where ?? DEFAULT_ORIGIN);
    return { where: origins.find((origin) => origin !== DEFAULT_ORIGIN) ?? DEFAULT_ORIGIN, field: fields[0], message };
  });
  if (conflicts.length > 0) throw new ConfigError(conflicts);
}

/** A problem with a flag names the flag and not its field. */
function omitFieldOfFlag(problem: Problem): Problem {
  return problem.where.startsWith("-") && fieldAt(problem.field) !== undefined ? { ...problem, field: "" } : problem;
}

/** Sorts the problems of each file by line, and keeps the order of files and flags. */
function sortByLine(problems: readonly Problem[]): readonly Problem[] {
  const lineOf = ({ where }: Problem) => Number(/:(\d+)$/.exec(where)?.[1] ?? 0);
  const byFile = Map.groupBy(problems, ({ where }) => where.replace(/:\d+$/, ""));
  return [...byFile.values()].flatMap((ofFile) => [...ofFile].sort((one, other) => lineOf(one) - lineOf(other)));
}

function gatesOf(config: MapNode): Gates {
  const set = config.entries.get("featureGates");
  const values = set?.kind === "map" ? [...set.entries] : [];
  return resolveGates(
    new Map(values.flatMap(([name, node]) => (node.kind === "scalar" ? [[name, node.value === true]] : []))),
  );
}

/**
 * The schema, KubeletConfiguration here and Kubernetes' own type have the same fields; the compiler and a test check
 * it.
 */
function configurationOf(kubelet: MapNode): KubeletConfiguration {
  return toJson(kubelet) as unknown as KubeletConfiguration;
}
