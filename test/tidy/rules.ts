import { dirname, join } from "node:path/posix";

/** The tree as text: path → content. */
export type Tree = ReadonlyMap<string, string>;

/** A rule of the house: what breaks it, one line each, with the file (and line) to look at. */
export type Rule = (tree: Tree) => readonly string[];

/**
 * Who may import whom, from the street to the roof: a room may import what stands behind it, and nothing else of ours. `host` in
 * `agent/decide` or `agent/act` in `agent/observed` would be an arrow that goes up or sideways.
 */
const floors: Readonly<Record<string, readonly string[]>> = {
  proto: [],
  host: [],
  "probe-net": ["proto", "host"],
  cri: ["proto", "host"],
  kube: ["proto", "host"],
  "agent/decide": ["proto"],
  "agent/translate": ["proto"],
  "agent/config": ["proto"],
  "agent/desired": ["proto", "host", "kube", "agent/decide"],
  "agent/observed": ["proto", "host", "cri", "probe-net", "agent/decide"],
  "agent/act": ["proto", "host", "cri", "probe-net", "agent/decide", "agent/translate"],
  "agent/report": ["proto", "host", "kube", "agent/decide"],
  "agent/serve": ["proto", "host", "agent/decide"],
  "agent/loop": ["proto", "host", "agent/decide"],
  agent: ["*"],
  cli: ["proto", "host", "agent", "agent/config", "agent/serve"],
  test: ["*"],
};

/** The files of the hallway: floor 5, below the builder on floor 6. */
const HALLWAY = new Set([
  "agent/loop/loop.ts",
  "agent/loop/sync-pod.ts",
  "agent/rooms.ts",
  "agent/loop/start-limiter.ts",
  "agent/loop/idle-timer.ts",
]);
const FROM = /^(?:import|export)\b[^"'`;]*?from "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;
const rooms = Object.keys(floors).toSorted((a, b) => b.length - a.length);

function roomOf(path: string): string | undefined {
  if (HALLWAY.has(path)) return "agent/loop";
  return rooms.find((room) => path.startsWith(`${room}/`));
}

/** Tests may import what they like: they stand outside the house. */
const isTest = (path: string) => /\.test\.ts$/.test(path) || path.startsWith("test/");
const isGenerated = (path: string) => path.includes("/gen/");
/** The house itself; the rules and their planted violations would break themselves. */
const ours = (tree: Tree) =>
  [...tree].filter(([path]) => path.endsWith(".ts") && !isGenerated(path) && !path.startsWith("test/tidy/"));
const product = (tree: Tree) => ours(tree).filter(([path]) => !isTest(path));

/** Every line of a file that matches, as `path:line: text`. */
function linesWith(files: readonly (readonly [string, string])[], pattern: RegExp): readonly string[] {
  return files.flatMap(([path, text]) =>
    text.split("\n").flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
}

const importsGoDown: Rule = (tree) =>
  product(tree).flatMap(([path, text]) => {
    const from = roomOf(path);
    if (from === undefined) return [`${path}: it stands in no room of the house`];
    return [...text.matchAll(FROM)].flatMap(([, a, b, c]) => {
      const target = a ?? b ?? c ?? "";
      if (!target.startsWith(".")) return [];
      const to = roomOf(join(dirname(path), target));
      const allowed = floors[from] ?? [];
      return to === undefined || to === from || allowed.includes("*") || allowed.includes(to)
        ? []
        : [`${path}: ${from} may not import ${to}`];
    });
  });

/** Decisions and translations: no time, no chance, no machine, no waiting. */
const decisionsArePure: Rule = (tree) =>
  linesWith(
    product(tree).filter(([path]) => /^agent\/(decide|translate)\//.test(path)),
    /\b(Date\.now|new Date\b|Math\.random|process\.|Bun\.|console\.|setTimeout|setInterval|setImmediate|fetch\(|await |async )|"node:/,
  );

/** Time is asked for in one place, and nobody looks again and again where an event exists. */
const nobodyPolls: Rule = (tree) => [
  ...linesWith(product(tree), /\bsetInterval\b/),
  ...linesWith(
    product(tree).filter(([path]) => !path.startsWith("host/") && !path.startsWith("probe-net/")),
    /\bsetTimeout\(/,
  ),
];

const typesSayWhatTheyMean: Rule = (tree) =>
  linesWith(ours(tree), /(:|<|\bas|\||,) ?any\b(?!\w| \w)|@ts-(ignore|nocheck|expect-error)|^\s*(export )?enum /);

/** The field's words are Kubernetes' and the kernel's; these are nobody's. */
const VAGUE = /(Manager|Helper|Util|Handler|Service|Impl|Base|Info|Data|Context)/;
/** Terms of Kubernetes, CRI and gRPC that carry one of those words. */
const TERMS =
  /(Cpu|Memory|Topology)Manager|DataKey|runtimeHandler|SecurityContext|ServiceAccount|BaseUrl|Base64|RuntimeService|ImageService|imageServiceEndpoint|ImageServiceEndpoint|service(?=[A-Z])|Services(?=[A-Z]|\b)|\bService\b/g;
const EXPORTED = /^export (?:async )?(?:function\*?|const|class|interface|type|let) (\w+)/gm;

const namesAreClear: Rule = (tree) =>
  ours(tree).flatMap(([path, text]) => {
    const file = path.slice(path.lastIndexOf("/") + 1);
    const folders = path.split("/").slice(0, -1);
    const exported = [...text.matchAll(EXPORTED)].map(([, name = ""]) => name);
    return [
      ...(/^[a-z0-9]+([-.][a-z0-9]+)*\.ts$/.test(file) ? [] : [`${path}: file names are kebab-case`]),
      ...(file === "index.ts" ? [`${path}: a folder is not a file`] : []),
      ...folders.filter((folder) => BAD_FOLDERS.has(folder)).map((folder) => `${path}: no folder is called ${folder}`),
      ...exported
        .filter((name) => VAGUE.test(name.replaceAll(TERMS, "")))
        .map((name) => `${path}: ${name} says nothing; name what it is`),
    ];
  });
const BAD_FOLDERS = new Set(["src", "lib", "util", "utils", "common", "core", "pkg", "helpers"]);

const LONGEST_FILE = 400;
/** Tables and a whole runtime in memory. */
const LONG_BY_NATURE =
  /^(agent\/config\/(schema|feature-gates|flag-table)\.ts|test\/fakes\/runtime\.ts|test\/contract\/runtime\.ts)$/;

const filesAreShort: Rule = (tree) =>
  ours(tree)
    .filter(
      ([path, text]) =>
        !path.endsWith(".test.ts") && !LONG_BY_NATURE.test(path) && text.split("\n").length > LONGEST_FILE,
    )
    .map(([path, text]) => `${path}: ${text.split("\n").length} lines; one idea a file, ${LONGEST_FILE} lines at most`);

/** Argument lists, never command lines. What a container of a test runs is its own affair. */
const noShell: Rule = (tree) =>
  linesWith(
    product(tree),
    /\bBun\.\$|\bshell: true|import \{[^}]*\bexec(Sync)?\b[^}]*\} from "node:child_process"|["'](\/bin\/)?(ba)?sh["'],/,
  );

/** A swallowed error needs a sentence that says why. */
const errorsAreNotSwallowed: Rule = (tree) =>
  ours(tree).flatMap(([path, text]) =>
    [...text.matchAll(/catch(?: \(\w+\))? \{\s*\}|\.catch\(\(\) => \{\s*\}\)/g)].map(
      ({ index }) => `${path}:${text.slice(0, index).split("\n").length}: an empty catch without a word`,
    ),
  );

const nothingIsLeftUndone: Rule = (tree) =>
  linesWith(ours(tree), /(\/\/|\*).*\b(TODO|FIXME|XXX|HACK)\b|\b(test|it|describe)\.(only|todo)\(|^export default /);

/** ARCHITECTURE.md names every folder of the house, and none that is not there. */
const architectureIsTrue: Rule = (tree) => {
  const text = tree.get("ARCHITECTURE.md") ?? "";
  const named = new Set([...text.matchAll(/^\s*`([a-z0-9/-]+)\/`/gm)].map(([, folder = ""]) => folder));
  const present = new Set(
    [...tree.keys()].flatMap((path) => {
      const [top = "", second = "", third] = path.split("/");
      if (!/^(proto|host|probe-net|cri|kube|agent|cli|test|docs|examples)$/.test(top)) return [];
      return third === undefined ? [top] : [top, `${top}/${second}`];
    }),
  );
  return [
    ...[...present]
      .filter((folder) => !named.has(folder))
      .map((folder) => `ARCHITECTURE.md: says nothing of ${folder}/`),
    ...[...named].filter((folder) => !present.has(folder)).map((folder) => `ARCHITECTURE.md: there is no ${folder}/`),
  ];
};

/** Each dependency has a line that says why it, and why not another. */
const dependenciesAreDecided: Rule = (tree) => {
  const decisions = [...tree]
    .filter(([path]) => path.startsWith("docs/decisions/"))
    .map(([, text]) => text)
    .join("\n");
  const manifest = JSON.parse(tree.get("package.json") ?? "{}") as Record<string, Record<string, string> | undefined>;
  const all = { ...manifest["dependencies"], ...manifest["devDependencies"] };
  return [
    ...Object.keys(all)
      .filter((name) => !decisions.includes(`\`${name}\``))
      .map((name) => `package.json: no decision names \`${name}\``),
    ...Object.entries(all)
      .filter(([, version]) => !/^\d/.test(version))
      .map(([name]) => `package.json: ${name} is not pinned`),
  ];
};

export const rules: Readonly<Record<string, Rule>> = {
  "every import goes down the stairs": importsGoDown,
  "decide and translate are pure": decisionsArePure,
  "nobody polls, and timers belong to host": nobodyPolls,
  "types say what they mean": typesSayWhatTheyMean,
  "names are clear": namesAreClear,
  "files are short": filesAreShort,
  "no shell is ever asked": noShell,
  "errors are not swallowed without a word": errorsAreNotSwallowed,
  "nothing is left undone or run alone": nothingIsLeftUndone,
  "ARCHITECTURE.md is true": architectureIsTrue,
  "dependencies are pinned and decided": dependenciesAreDecided,
};
