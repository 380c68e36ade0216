/** The result of one run of a test suite. Test names include their groups. */
export interface TestCounts {
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: readonly string[];
}

const testcase = /<testcase (?<attributes>[^>]*?)(?:\/>|>(?<body>.*?)<\/testcase>)/gs;
const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&", "#10": "\n" };

/** Counts the test cases in a JUnit report of `bun test --reporter=junit`. A todo counts as skipped. */
export function readJunit(xml: string): TestCounts {
  const cases = [...xml.matchAll(testcase)].map(({ groups }) => {
    const group = attribute(groups?.["attributes"], "classname");
    const name = attribute(groups?.["attributes"], "name");
    const body = groups?.["body"] ?? "";
    return { title: group === "" ? name : `${group} > ${name}`, body };
  });
  const failed = cases.filter(({ body }) => /<(failure|error)\b/.test(body));
  const skipped = cases.filter(({ body }) => /<skipped\b/.test(body));
  return {
    passed: cases.length - failed.length - skipped.length,
    failed: failed.map(({ title }) => title),
    skipped: skipped.map(({ title }) => title),
  };
}

function attribute(attributes: string | undefined, name: string): string {
  const value = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(attributes ?? "")?.[1] ?? "";
  return value.replace(/&([a-z]+|#10);/g, (whole, entity: string) => entities[entity] ?? whole);
}
