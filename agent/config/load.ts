import { resolve } from "node:path/posix";
import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import { defaultOrigin, emptyMap, getAt, jsonOf, type MapNode, mergePatch } from "../../proto/yaml/value-node.ts";
import type { Config } from "./config.ts";
import { findProviders, type ProvidersPlace } from "./credential-providers/credential-providers.ts";
import { fieldAt } from "./fields/field-tree.ts";
import { splitCommandLine } from "./flags/command-line.ts";
import { applySettings, readSettings, type Settings, settingWarnings } from "./flags/flag-overrides.ts";
import { flagGroups } from "./flags/flag-table.ts";
import { describeFlags } from "./flags/help.ts";
import { type ConfigFiles, readSource } from "./kubelet-config/config-file.ts";
import { applyDefaults } from "./kubelet-config/defaults.ts";
import { findDropIns } from "./kubelet-config/drop-ins.ts";
import { type Gates, resolveGates } from "./kubelet-config/gates.ts";
import { findConflicts } from "./kubelet-config/rules.ts";
import { checkValues } from "./kubelet-config/values.ts";
import { findWarnings } from "./kubelet-config/warnings.ts";
import { nodeNameOf } from "./node-name.ts";
import { ConfigError, type Problem } from "./problem.ts";
import { type FlagSettings, freezeDeep, resolveConfig, resolveFlags } from "./resolve.ts";

/** What the command line asks for: the agent with its configuration, or one of the two answers that need none. */
export type Loaded =
  | {
      readonly kind: "config";
      readonly config: Config;
      /** The whole of it as Kubernetes words it: defaults, file, drop-ins and flags merged. */
      readonly kubelet: KubeletConfiguration;
      /** One line each: settings that are known and have no effect yet, and what happens instead. */
      readonly warnings: readonly string[];
      /** Files below `--config-dir` that are not drop-ins, for the debug log. */
      readonly skippedFiles: readonly string[];
    }
  | { readonly kind: "version"; readonly form: "line" | "raw" }
  | { readonly kind: "help"; readonly text: string };

export interface LoadOptions {
  /** The arguments alone, without the program and its command. */
  readonly argv: readonly string[];
  readonly files: ConfigFiles;
  /** Where relative paths of flags start: an absolute path. */
  readonly workingDirectory: string;
  /** The machine's own name, for a node that is given none. */
  readonly hostname: string;
}

/**
 * Resolves the flags, over the drop-ins of `--config-dir`, over the file of `--config`, over the defaults of Kubernetes
 * for such a file. These are the secure ones; they hold without a file too, where the kubelet has others (anonymous
 * access, every request allowed, a read-only port).
 *
 * @throws ConfigError with every problem found
 */
export async function loadConfig({ argv, files, workingDirectory, hostname }: LoadOptions): Promise<Loaded> {
  const line = splitCommandLine(argv, flagGroups);
  const settings = readSettings(line.given);
  const asked = (name: string) => String(settings.byName.get(name)?.value ?? "false") !== "false";
  if (asked("help")) return { kind: "help", text: describeFlags(flagGroups) };
  const flags = resolveFlags(settings);
  const absolute = (path: string) => (path === "" ? "" : resolve(workingDirectory, path));
  const before = [...line.problems, ...settings.problems, ...clusterProblems(flags)];
  const version = String(settings.byName.get("version")?.value ?? "false");
  if ((version === "true" || version === "raw") && before.length === 0)
    return { kind: "version", form: version === "raw" ? "raw" : "line" };

  const { nodeName, problems } = nodeNameOf(flags.hostnameOverride, hostname);
  const read = await readFiles(absolute(flags.config), absolute(flags.configDir), settings, files);
  const node = applySettings(read.node, settings);
  const gates = gatesOf(node);
  const found = await findProviders(providersPlace(flags, gates, absolute), files);
  checkAll(node, gates, [...before, ...problems, ...read.problems, ...found.problems]);
  const kubelet = freezeDeep(configurationOf(node));
  const config = freezeDeep(resolveConfig(kubelet, flags, { nodeName, credentialProviders: found.config }, absolute));
  const warnings = [...settingWarnings(settings), ...versionWarnings(version), ...findWarnings(node)];
  return { kind: "config", config, kubelet, warnings, skippedFiles: read.skipped };
}

function providersPlace(flags: FlagSettings, gates: Gates, absolute: (path: string) => string): ProvidersPlace {
  return {
    file: absolute(flags.imageCredentialProviderConfig),
    binDir: absolute(flags.imageCredentialProviderBinDir),
    mayUseTokens: gates.KubeletServiceAccountTokenForCredentialProviders,
  };
}

function clusterProblems({ kubeconfig, inCluster }: FlagSettings): readonly Problem[] {
  if (kubeconfig === "" || !inCluster) return [];
  return [{ where: "--in-cluster", field: "", message: "--kubeconfig is given too: only one of them can be meant" }];
}

/** `--version=v1.36.3-edge` names what the node is to report, and the agent starts. */
function versionWarnings(version: string): readonly string[] {
  const isNamed = version.startsWith("v");
  return isNamed ? [`--version "${version}" is known but not implemented yet: no version is reported yet`] : [];
}

interface ReadFiles {
  readonly node: MapNode;
  readonly skipped: readonly string[];
  readonly problems: readonly Problem[];
}

/**
 * The file with its defaults, the drop-ins laid over it one by one, and defaults again for what a drop-in removed. That
 * order shows: a drop-in meets fields that the file never mentions.
 */
async function readFiles(file: string, folder: string, settings: Settings, files: ConfigFiles): Promise<ReadFiles> {
  const problems: Problem[] = [];
  const withDefaults = (map: MapNode) => applyDefaults(map, gatesOf(applySettings(map, settings)));
  const source = file === "" ? { node: emptyMap(defaultOrigin), problems: [] } : await readSource(file, false, files);
  problems.push(...source.problems);
  let node = withDefaults(source.node);
  if (folder === "") return { node, skipped: [], problems };
  const dropIns = await findDropIns(folder, files);
  problems.push(...dropIns.problems);
  for (const dropIn of dropIns.files) {
    const patch = await readSource(dropIn, true, files);
    problems.push(...patch.problems);
    const merged = mergePatch(node, patch.node);
    if (merged.kind === "map") node = merged;
  }
  return { node: withDefaults(node), skipped: dropIns.skipped, problems };
}

/** Throws whatever is wrong. Fields are held against each other only when each is right by itself. */
function checkAll(kubelet: MapNode, gates: Gates, before: readonly Problem[]): void {
  const problems = [...before, ...checkValues(kubelet).map(nameByFlag)];
  if (problems.length > 0) throw new ConfigError(sortByLine(problems));
  const conflicts = findConflicts(configurationOf(kubelet), gates).map(({ fields, message }): Problem => {
    const origins = fields.map((field) => getAt(kubelet, field.split("."))?.where ?? defaultOrigin);
    return { where: origins.find((origin) => origin !== defaultOrigin) ?? defaultOrigin, field: fields[0], message };
  });
  if (conflicts.length > 0) throw new ConfigError(conflicts);
}

/** A flag names the field that it sets. */
function nameByFlag(problem: Problem): Problem {
  return problem.where.startsWith("-") && fieldAt(problem.field) !== undefined ? { ...problem, field: "" } : problem;
}

/** Problems of one file in the order of its lines; files and flags as they were read. */
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

/** The table, the type and Kubernetes' own type name the same fields, which the compiler and a test prove. */
function configurationOf(kubelet: MapNode): KubeletConfiguration {
  return jsonOf(kubelet) as unknown as KubeletConfiguration;
}
