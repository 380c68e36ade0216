import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ifAbsent } from "../bed/if-absent.ts";
import { tableOf, withFigures, withReadmeFigures } from "./benchmarks-document.ts";
import { samplesText } from "./publication.ts";
import { readmeFigures } from "./readme-figures.ts";
import type { Result } from "./results.ts";
import type { BenchPart } from "./table.ts";

/** Writes the samples of each part into a file of its own. */
export async function writeSamples(folder: string, results: readonly Result[]): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const result of results) await writeFile(join(folder, `${result.part}.json`), samplesText(result));
}

/** The committed samples of those of these parts that have been measured. */
export async function readSamples(repository: string, parts: readonly BenchPart[]): Promise<readonly Result[]> {
  const read = (part: BenchPart) =>
    readFile(join(repository, "docs", "benchmarks", `${part}.json`), "utf8").catch(ifAbsent(undefined));
  const texts = await Promise.all(parts.map(read));
  return texts.flatMap((text) => (text === undefined ? [] : [JSON.parse(text) as Result]));
}

/** Writes the tables of these samples into docs/benchmarks.md, and the six figures into the README if the kubelet's table is one of them. */
export async function writeTables(repository: string, results: readonly Result[]): Promise<void> {
  const document = join(repository, "docs", "benchmarks.md");
  const write = (text: string, result: Result) => withFigures(text, result.part, tableOf(result));
  await writeFile(document, results.reduce(write, await readFile(document, "utf8")));
  const beside = results.find((result) => result.part === "kubelet");
  if (beside === undefined) return;
  const readme = join(repository, "README.md");
  await writeFile(readme, withReadmeFigures(await readFile(readme, "utf8"), readmeFigures(beside)));
}
