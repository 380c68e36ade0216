import type { Rule } from "./rules.ts";

/**
 * Words of private metaphors, and of sentences that hide who acts. None is a term of Kubernetes, CRI, CNI or the
 * kernel. Names, comments, test names and documents use the term of the field instead, which stands beside the word.
 */
const INSTEAD: Readonly<Record<string, string>> = {
  told: "notified, or the name of the event",
  hear: "receive",
  hears: "receives",
  heard: "received",
  whoever: "the component that acts",
  nobody: "the component that does not act",
  somebody: "the component that acts",
  knock: "connection attempt",
  story: "report, or log",
  stories: "reports, or logs",
  unwell: "notReady",
  blind: "unobserved",
  blindness: "unobserved",
  scene: "fixture",
  scenes: "fixtures",
  begun: "started",
  stirred: "woken",
  lane: "queue, or priority level",
  lanes: "queues, or priority levels",
  doubt: "unknown",
  doubted: "unknown",
  forgive: "reset, or tolerate",
  forgiven: "reset, or tolerated",
  anew: "again, or new",
  news: "update, or event",
  trouble: "failure, or error",
  troubles: "failures, or errors",
  hallway: "queue",
  bell: "wake, or event",
  encounter: "case",
};

/** Comments, strings and templates; names are the rest. */
const TOKEN =
  /(?<comment>\/\/.*|\/\*[\s\S]*?\*\/)|(?<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[\s\S])*`)|(?<name>[A-Za-z_$][\w$]*)/g;
/** The name of a user in /etc/passwd and in certificates. */
const NOT_PROSE = new Set(['"nobody"']);
const isTest = (path: string) => path.startsWith("test/") || path.endsWith(".test.ts");
const TEST_NAME = /\b(?:test|describe)(?:\.\w+)?\(\s*(["'`])(?<title>[\s\S]*?)\1/g;

/** The words of a name in camel case, snake case or kebab case, in lower case. */
const wordsOf = (name: string) =>
  name
    .split(/(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z]+/)
    .map((word) => word.toLowerCase())
    .filter((word) => word !== "");

/** Most texts contain none of the words, not even as a part of another one; to look for words in them takes time. */
const MAYBE = new RegExp(Object.keys(INSTEAD).join("|"), "i");

const violationsIn = (what: string, text: string) =>
  (MAYBE.test(text) ? wordsOf(text) : [])
    .filter((word) => Object.hasOwn(INSTEAD, word))
    .map((word) => `${what} says "${word}"; use ${INSTEAD[word]}`);

const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;

function inSource(path: string, text: string): readonly string[] {
  const inTokens = [...text.matchAll(TOKEN)].flatMap(({ index, groups }) => [
    ...violationsIn("a comment", groups?.["comment"] ?? "").map((line) => ({ index, line })),
    // The strings of tests are also data.
    ...violationsIn(
      "a text",
      isTest(path) || NOT_PROSE.has(groups?.["text"] ?? "") ? "" : (groups?.["text"] ?? ""),
    ).map((line) => ({ index, line })),
    ...violationsIn(`the name ${groups?.["name"]}`, groups?.["name"] ?? "").map((line) => ({ index, line })),
  ]);
  const inTitles = [...text.matchAll(TEST_NAME)].flatMap(({ index, groups }) =>
    violationsIn("the name of a test", groups?.["title"] ?? "").map((line) => ({ index, line })),
  );
  return [...inTokens, ...inTitles].map(({ index, line }) => `${path}:${lineAt(text, index)}: ${line}`);
}

/** Documents quote names in backticks, such as a field of an earlier version; quotes are not the document's words. */
const inDocument = (path: string, text: string) =>
  text
    .split("\n")
    .flatMap((line, index) =>
      violationsIn("the text", line.replaceAll(/`[^`]*`/g, "")).map((what) => `${path}:${index + 1}: ${what}`),
    );

/** File names, names in the code, comments, texts of the product, test names and documents use the field's terms. Design, section 8. */
export const wordsArePlain: Rule = (tree) =>
  [...tree]
    .filter(([path]) => !path.includes("/gen/") && !path.startsWith("test/tidy/"))
    .flatMap(([path, text]) => [
      ...violationsIn("the file name", path.slice(path.lastIndexOf("/") + 1)).map((line) => `${path}: ${line}`),
      ...(path.endsWith(".ts") ? inSource(path, text) : []),
      ...(path.endsWith(".md") ? inDocument(path, text) : []),
    ]);
