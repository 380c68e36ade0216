import { expect, test } from "bun:test";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { figuresIn, tableOf, withFigures } from "./benchmarks-document.ts";
import { readSamples, writeSamples, writeTables } from "./written-documents.ts";

const committed = join(import.meta.dirname, "..", "..");

test("the tables of the parts that have samples are written again, and that of a part without samples stays", async () => {
  const repository = await mkdtemp(join(tmpdir(), "benchmarks-"));
  try {
    const document = join(repository, "docs", "benchmarks.md");
    await cp(join(committed, "docs", "benchmarks.md"), document);
    const [api] = await readSamples(committed, ["api"]);
    if (api === undefined) throw new Error("the part api has no samples");
    await writeSamples(join(repository, "docs", "benchmarks"), [api]);
    const text = await readFile(document, "utf8");
    await Bun.write(document, withFigures(withFigures(text, "api", "old"), "floor", "Not measured yet."));
    await writeTables(repository, await readSamples(repository, ["floor", "api"]));
    const written = await readFile(document, "utf8");
    expect(figuresIn(written, "api")).toBe(tableOf(api));
    expect(figuresIn(written, "floor")).toBe("Not measured yet.");
  } finally {
    await rm(repository, { recursive: true });
  }
});
