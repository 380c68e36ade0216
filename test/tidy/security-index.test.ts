import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";

/** The last column of a row: the path of a test file, and a part of a test's name or of a row of its table. */
const NAMED_TEST = /\| `([^`]+)`: ([^|]+) \|$/;

test("each test that docs/security.md names exists", async () => {
  const [, , ...rows] = (await readFile("docs/security.md", "utf8")).split("\n").filter((line) => line.startsWith("|"));
  expect(rows.length).toBeGreaterThan(15);
  for (const row of rows) {
    const [, path = "", name = ""] = NAMED_TEST.exec(row) ?? [];
    const source = path === "" ? "" : await readFile(path, "utf8");
    expect({ row, hasTest: name !== "" && source.includes(name) }).toEqual({ row, hasTest: true });
  }
});
