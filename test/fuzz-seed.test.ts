import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";

const fuzzTest = `
import { test } from "bun:test";
import fc from "${import.meta.resolve("fast-check")}";
test("input", () => fc.assert(fc.property(fc.integer(), (input) => console.log("input", input)), { numRuns: 5 }));
`;

test("BERTH_SEED selects the inputs of fuzz tests; without it each run draws others", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-fuzz-seed-"));
  try {
    const file = join(folder, "input.test.ts");
    await writeFile(file, fuzzTest);
    const inputs = async (env: Readonly<Record<string, string | undefined>>) => {
      const { stdout } = await execa(process.execPath, ["test", file], { env: { BERTH_SEED: undefined, ...env } });
      const found = stdout.split("\n").filter((line) => line.startsWith("input "));
      expect(found).toHaveLength(5);
      return found;
    };
    const [first, again] = [await inputs({ BERTH_SEED: "7" }), await inputs({ BERTH_SEED: "7" })];
    expect(again).toEqual(first);
    expect(await inputs({ BERTH_SEED: "8" })).not.toEqual(first);
    expect(await inputs({})).not.toEqual(await inputs({}));
  } finally {
    await rm(folder, { recursive: true });
  }
});
