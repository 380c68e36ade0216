import { dirname, join } from "node:path/posix";
import { wordsArePlain } from "./plain-words.ts";

/** The tree as text: path → content. */
export type Tree = ReadonlyMap<string, string>;

/** A rule of this repository. Returns one line per violation, with its file and line. */
export type Rule = (tree: Tree) => readonly string[];

/**
 * The dependency table: a component may import the components listed for it, and no others of this repository. An
 * import of `host` in `agent/decide`, or of `agent/act` in `agent/observed`, would point up or sideways.
 */
const allowedImports: Readonly<Record<string, readonly string[]>> = {
  proto: [],
  host: [],
  "probe-net": ["proto", "host"],
  cri: ["proto", "host"],
  cni: ["proto", "host"],
  cgroups: ["proto", "host"],
  kube: ["proto", "host"],
  "agent/decide": ["proto"],
  "agent/translate": ["proto"],
  "agent/config": ["proto", "agent/decide", "agent/translate"],
  "agent/preflight": ["proto", "host", "cri", "cgroups", "agent/config", "agent/decide", "agent/translate"],
  "agent/desired": ["proto", "host", "kube", "agent/decide"],
  "agent/observed": ["proto", "host", "cri", "cgroups", "probe-net", "agent/decide"],
  "agent/act": ["proto", "host", "cri", "cni", "cgroups", "probe-net", "agent/decide", "agent/translate"],
  "agent/report": ["proto", "host", "kube", "agent/decide"],
  "agent/serve": ["proto", "host", "cri", "cni", "cgroups", "kube", "agent/decide"],
  "agent/loop": ["proto", "host", "agent/decide"],
  "agent/wiring": ["*"],
  "agent/main.ts": ["*"],
  cli: ["proto", "host", "cri", "cni", "agent/main.ts", "agent/config", "agent/preflight", "agent/serve"],
  test: ["*"],
};

const FROM = /^(?:import|export)\b[^"'`;]*?from "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;
const components = Object.keys(allowedImports).toSorted((a, b) => b.length - a.length);

function componentOf(path: string): string | undefined {
  return components.find((component) => path === component || path.startsWith(`${component}/`));
}

/** Tests may import everything. */
const isTest = (path: string) => /\.test\.ts$/.test(path) || path.startsWith("test/");
const isGenerated = (path: string) => path.includes("/gen/");
/** All hand-written files, except the rules and their planted violations, which would violate the rules. */
const handWritten = (tree: Tree) =>
  [...tree].filter(([path]) => path.endsWith(".ts") && !isGenerated(path) && !path.startsWith("test/tidy/"));
const product = (tree: Tree) => handWritten(tree).filter(([path]) => !isTest(path));

/** Every line of a file that matches, as `path:line: text`. */
function linesWith(files: readonly (readonly [string, string])[], pattern: RegExp): readonly string[] {
  return files.flatMap(([path, text]) =>
    text.split("\n").flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
}

const importsAreAllowed: Rule = (tree) =>
  product(tree).flatMap(([path, text]) => {
    const from = componentOf(path);
    if (from === undefined) return [`${path}: belongs to no component of the dependency table`];
    return [...text.matchAll(FROM)].flatMap(([, a, b, c]) => {
      const target = a ?? b ?? c ?? "";
      if (!target.startsWith(".")) return [];
      const to = componentOf(join(dirname(path), target));
      const allowed = allowedImports[from] ?? [];
      return to === undefined || to === from || allowed.includes("*") || allowed.includes(to)
        ? []
        : [`${path}: ${from} may not import ${to}`];
    });
  });

/** Decisions and translations use no clock, no random numbers, no machine and no async code. */
const decisionsArePure: Rule = (tree) =>
  linesWith(
    product(tree).filter(([path]) => /^agent\/(decide|translate)\//.test(path)),
    /\b(Date\.now|new Date\b|Math\.random|process\.|Bun\.|console\.|setTimeout|setInterval|setImmediate|fetch\(|await |async )|"node:/,
  );

/** Only `host`, and `probe-net` for its deadlines, create timers; nothing polls with setInterval. */
const nothingPolls: Rule = (tree) => [
  ...linesWith(product(tree), /\bsetInterval\b/),
  ...linesWith(
    product(tree).filter(([path]) => !/^(host|probe-net)\//.test(path)),
    /\bsetTimeout\(/,
  ),
];

const typesArePrecise: Rule = (tree) =>
  linesWith(
    handWritten(tree),
    /(:|<|\bas|\||,) ?any\b(?!\w| \w)|@ts-(ignore|nocheck|expect-error)|^\s*(export )?enum /,
  );

/** Words without meaning in exported names. */
const VAGUE = /(Manager|Helper|Util|Handler|Service|Impl|Base|Info|Data|Context)/;
/** Terms of Kubernetes, CRI and gRPC that contain one of those words. */
const TERMS =
  /(Cpu|Memory|Topology)Manager|DataKey|[rR]untimeHandler|Informer|UserInfo|SecurityContext|ServiceAccount|BaseUrl|Base64|RuntimeService|ImageService|imageServiceEndpoint|ImageServiceEndpoint|service(?=[A-Z])|Services(?=[A-Z]|\b)|\bService\b/g;
const EXPORTED = /^export (?:async )?(?:function\*?|const|class|interface|type|let) (\w+)/gm;

const namesAreClear: Rule = (tree) =>
  handWritten(tree).flatMap(([path, text]) => {
    const file = path.slice(path.lastIndexOf("/") + 1);
    const folders = path.split("/").slice(0, -1);
    const exported = [...text.matchAll(EXPORTED)].map(([, name = ""]) => name);
    return [
      ...(/^[a-z0-9]+([-.][a-z0-9]+)*\.ts$/.test(file) ? [] : [`${path}: file names are kebab-case`]),
      ...(file === "index.ts" ? [`${path}: name the file after what it contains`] : []),
      ...folders
        .filter((folder) => BAD_FOLDERS.has(folder))
        .map((folder) => `${path}: a folder must not be called ${folder}`),
      ...exported
        .filter((name) => VAGUE.test(name.replaceAll(TERMS, "")))
        .map((name) => `${path}: ${name} is vague; name what it is`),
    ];
  });
const BAD_FOLDERS = new Set(["src", "lib", "util", "utils", "common", "core", "pkg", "helpers"]);

const MAX_FILE_LINES = 400;
/** Tables, and the contract of a runtime. */
const LONG_FILES =
  /^(agent\/config\/(kubelet-config\/(schema|feature-gates)|flags\/flag-table)\.ts|test\/contract\/runtime\.ts)$/;

const filesAreShort: Rule = (tree) =>
  handWritten(tree)
    .filter(
      ([path, text]) =>
        !path.endsWith(".test.ts") && !LONG_FILES.test(path) && text.split("\n").length > MAX_FILE_LINES,
    )
    .map(
      ([path, text]) =>
        `${path}: ${text.split("\n").length} lines; a file has one idea and at most ${MAX_FILE_LINES} lines`,
    );

/** Programs are started with argument lists, never through a shell. Containers of tests may use one. */
const noShell: Rule = (tree) =>
  linesWith(
    product(tree),
    /\bBun\.\$|\bshell: true|import \{[^}]*\bexec(Sync)?\b[^}]*\} from "node:child_process"|["'](\/bin\/)?(ba)?sh["'],/,
  );

/** These compare two states of the API server's pod, to send a patch or to wake the pod; no decision follows from it. */
const STATUS_COMPARISONS = /^agent\/decide\/(status\/status-(merge|patch)|sources\/merge-api)\.ts$/;

/** Published status is not memory: one step reads what the API server has, and decisions take its result. */
const statusHasOneReader: Rule = (tree) =>
  linesWith(
    product(tree).filter(
      ([path]) =>
        /^agent\/(decide|observed)\//.test(path) &&
        path !== "agent/decide/status/previous-status.ts" &&
        !STATUS_COMPARISONS.test(path),
    ),
    /\b(\w*[pP]od|mirror)\??\.status\b|\{[^{}]*\bstatus\b[^{}]*\}: (Pod|Pick<Pod,[^>]*)\b|\bstatus\b[^=]*\} = (\w+\.)*(\w*Pod|pod)\b(?!\()|\bpod: \{[^}]*\bstatus\b/,
  );

/** The keys of labels, annotations and taints are in one file. Types of Secrets are no keys. */
const keysAreInOneFile: Rule = (tree) =>
  linesWith(
    product(tree).filter(([path]) => path !== "proto/kubernetes/well-known-names.ts"),
    /"([a-z.]+\.)?kubernetes\.io\/(?!dockerc)[a-z.-]+\/?"|"(io\.kubernetes|berth\.dev)[./]\w/,
  );

/**
 * The wiring builds each component after those that it needs. A variable of a component's type that is assigned later,
 * or a function that is replaced later, stands for a dependency that runs back; an event source replaces it.
 */
const nothingIsBoundLate: Rule = (tree) =>
  linesWith(
    product(tree).filter(([path]) => path === "agent/main.ts" || path.startsWith("agent/wiring/")),
    /\blet \w+: [A-Z]\w* \| undefined;|\blet \w+!?: [A-Z]\w*;|\blet \w+ = (async )?\(\) => /,
  );

/** A handler that ignores the error, and whose result is nothing: an empty block, undefined, false, an empty text or list. */
const NOTHING = String.raw`(?:\{\s*\}|\{\s*return(?: (?:undefined|null))?;\s*\}|\(\{\}\)|undefined|null|void 0|true|false|0|""|\[\])`;
const SWALLOWED = new RegExp(
  String.raw`\bcatch(?: \(\w+\))? \{\s*(?:return(?: (?:undefined|null|true|false|0|""|\[\]))?;\s*)?\}|\.catch\(\s*\(\w*\)(?:: [^=]+?)? => ${NOTHING},?\s*\)`,
  "g",
);
const COMMENT = /^\s*(\/\/|\*|\/\*)|\*\/\s*$|\S \/\/ /;

/**
 * An error that is swallowed needs a comment that says why: on its line, on the line before its statement's line, or
 * above a paragraph of such lines.
 */
const errorsAreNotSwallowed: Rule = (tree) =>
  handWritten(tree).flatMap(([path, text]) => {
    const lines = text.split("\n");
    const found = [...text.matchAll(SWALLOWED)].map((match) => lineOf(text, match.index));
    const isExplained = (line: number): boolean =>
      COMMENT.test(lines[line] ?? "") ||
      COMMENT.test(lines[line - 1] ?? "") ||
      (found.includes(line - 1) && isExplained(line - 1));
    return found
      .filter((line) => !isExplained(line))
      .map((line) => `${path}:${line + 1}: swallows an error, and no comment says why`);
  });
const lineOf = (text: string, index: number) => text.slice(0, index).split("\n").length - 1;

const EXPECTED_LATER = /^[ \t]*(expect\((?:[^;]|;(?!\n))*?\)\s*\.(?:rejects|resolves)\b)/gm;

/** The types of `expect` hide its promise, so no linter sees that one is not awaited; its test would pass in any case. */
const expectationsAreAwaited: Rule = (tree) =>
  handWritten(tree).flatMap(([path, text]) =>
    [...text.matchAll(EXPECTED_LATER)].map(
      (match) => `${path}:${lineOf(text, match.index) + 1}: await the expectation of a promise`,
    ),
  );

const INTERNAL =
  /@internal\b(?:(?!\*\/)[\s\S])*\*\/\s*export (?:async )?(?:function\*?|const|class|interface|type) (\w+)/g;

/** Knip spares a name with the tag @internal, so it does not see that only tests use it: another line of the product has to. */
const internalNamesAreUsed: Rule = (tree) => {
  const code = product(tree).map(([, text]) => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, ""));
  return product(tree).flatMap(([path, text]) =>
    [...text.matchAll(INTERNAL)].flatMap(([, name = ""]) => {
      const uses = code.flatMap((each) => each.match(new RegExp(`\\b${name}\\b`, "g")) ?? []);
      return uses.length > 1 ? [] : [`${path}: only tests use ${name}`];
    }),
  );
};

const nothingIsUnfinished: Rule = (tree) =>
  linesWith(
    handWritten(tree),
    /(\/\/|\*).*\b(TODO|FIXME|XXX|HACK)\b|\b(test|it|describe)\.(only|todo)\(|^export default /,
  );

/** ARCHITECTURE.md names every folder, and no folder that does not exist. */
const architectureIsComplete: Rule = (tree) => {
  const text = tree.get("ARCHITECTURE.md") ?? "";
  const named = new Set([...text.matchAll(/^\s*`([a-z0-9/-]+)\/`/gm)].map(([, folder = ""]) => folder));
  const present = new Set(
    [...tree.keys()].flatMap((path) => {
      const folders = path.split("/").slice(0, -1);
      const [top = ""] = folders;
      if (
        !/^(proto|host|probe-net|cri|cni|cgroups|kube|agent|cli|test|docs|examples|deploy)$/.test(top) ||
        folders.includes("gen")
      )
        return [];
      // Of the tests the first two levels are enough.
      const depth = top === "test" ? Math.min(2, folders.length) : folders.length;
      return Array.from({ length: depth }, (_, index) => folders.slice(0, index + 1).join("/"));
    }),
  );
  return [
    ...[...present]
      .filter((folder) => !named.has(folder))
      .map((folder) => `ARCHITECTURE.md: does not mention ${folder}/`),
    ...[...named]
      .filter((folder) => !present.has(folder))
      .map((folder) => `ARCHITECTURE.md: mentions ${folder}/, which does not exist`),
  ];
};

/** Each dependency is pinned, and a decision explains it. */
const dependenciesAreExplained: Rule = (tree) => {
  const decisions = [...tree]
    .filter(([path]) => path.startsWith("docs/decisions/"))
    .map(([, text]) => text)
    .join("\n");
  const manifest = JSON.parse(tree.get("package.json") ?? "{}") as Record<string, Record<string, string> | undefined>;
  const all = { ...manifest["dependencies"], ...manifest["devDependencies"] };
  return [
    ...Object.keys(all)
      .filter((name) => !decisions.includes(`\`${name}\``))
      .map((name) => `package.json: no decision explains \`${name}\``),
    ...Object.entries(all)
      .filter(([, version]) => !/^\d/.test(version))
      .map(([name]) => `package.json: ${name} is not pinned`),
  ];
};

export const rules: Readonly<Record<string, Rule>> = {
  "every import follows the dependency table": importsAreAllowed,
  "decide and translate are pure": decisionsArePure,
  "nothing polls, and timers belong to host": nothingPolls,
  "types are precise": typesArePrecise,
  "names are clear": namesAreClear,
  "words are plain": wordsArePlain,
  "files are short": filesAreShort,
  "no program is started through a shell": noShell,
  "one file of the decisions reads pod.status": statusHasOneReader,
  "well-known keys are in one file": keysAreInOneFile,
  "the wiring binds nothing late": nothingIsBoundLate,
  "errors are not swallowed without a reason": errorsAreNotSwallowed,
  "expectations of promises are awaited": expectationsAreAwaited,
  "the product uses what it marks as internal": internalNamesAreUsed,
  "no TODO, focused test or default export is left": nothingIsUnfinished,
  "ARCHITECTURE.md names the folders that exist": architectureIsComplete,
  "dependencies are pinned and explained": dependenciesAreExplained,
};
