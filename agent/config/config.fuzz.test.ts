import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Json, mergePatch, toJson, toNode } from "../../proto/yaml/value-node.ts";
import type { FlagType } from "./flags/flag.ts";
import { flagGroups } from "./flags/flag-table.ts";
import type { Field } from "./kubelet-config/field.ts";
import { schema } from "./kubelet-config/schema.ts";
import { loadConfig } from "./load.ts";
import { ConfigError } from "./problem.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
/** One configuration has hundreds of values, so a fraction of the usual runs has the same coverage. */
const wholeRuns = Math.ceil(numRuns / 5);
const longMs = 1_800_000;
const head = { apiVersion: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" };

const rows: readonly (readonly [string, Field])[] = Object.entries(schema);
const flags = flagGroups.flatMap((group) => group.flags).filter(({ name }) => !["config", "config-dir"].includes(name));

/** Loads one file; undefined when it is rejected, which must be by a ConfigError with one line per problem. */
async function load(argv: readonly string[], text?: string) {
  const files = { read: () => Promise.resolve(text ?? ""), list: () => Promise.resolve([]) };
  const configFlags = text === undefined ? [] : ["--config=/c"];
  try {
    return await loadConfig({ argv: [...configFlags, ...argv], files, workingDirectory: "/", hostname: "node" });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    expect(error.problems.length).toBeGreaterThan(0);
    expect(error.message.split("\n")).toHaveLength(error.problems.length);
    return undefined;
  }
}

const names = rows.map(([path]) => path).filter((path) => !path.includes("."));
const anyConfig = fc.dictionary(
  fc.oneof(fc.constantFrom(...names), fc.string({ maxLength: 8 })),
  fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom("1m", "10Mi", "50%", "x", -1, 0, 1, 2 ** 31, 1e300, true, null, [], {}),
    fc.dictionary(
      fc.constantFrom("enabled", "webhook", "x509", "format", "memory.available", "cpu", "key", "__proto__"),
      fc.jsonValue({ maxDepth: 1 }),
    ),
  ),
  { maxKeys: 8 },
);

const soundFields = (maxLength: number) =>
  fc
    .subarray(
      rows.filter(([path]) => !path.includes(".") && path !== "featureGates"),
      { maxLength },
    )
    .chain((some) => fc.record(Object.fromEntries(some.map(([path, field]) => [path, soundValue(field)]))))
    .map(withoutUndefined);
/** A few sound fields, and at most one with any value. */
const nearlySound = fc
  .tuple(soundFields(3), fc.option(anyConfig, { freq: 2 }))
  .map(([fields, others]) => ({ ...fields, ...Object.fromEntries(Object.entries(others ?? {}).slice(0, 1)) }));

test(
  "any fields with any values load or throw a ConfigError",
  async () => {
    let accepted = 0;
    const property = fc.asyncProperty(fc.oneof(anyConfig, { arbitrary: nearlySound, weight: 3 }), async (fields) => {
      const loaded = await load([], JSON.stringify({ ...head, ...fields }));
      if (loaded?.kind === "config" && Object.keys(fields).length > 0) accepted += 1;
    });
    await fc.assert(property, { numRuns: wholeRuns });
    // Of the ten runs of the quick check none may be accepted by chance.
    expect(accepted).toBeGreaterThanOrEqual(Math.floor(wholeRuns / 20));
  },
  longMs,
);

const soundTexts: Readonly<Partial<Record<FlagType, readonly string[]>>> = {
  bool: ["true", "false"],
  duration: ["1m", "2h"],
  mapStringString: ["a=b"],
};
const soundFlag = fc.constantFrom(
  ...flags.flatMap(({ name, type }) => (soundTexts[type] ?? []).map((text) => `--${name}=${text}`)),
);
const anyFlag = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(...flags),
      fc.oneof(
        fc.string({ maxLength: 12 }),
        fc.constantFrom("1", "1m", "a=b", "a:b", "a<1", "true", "::", "0:memory=1Gi", "k=v:NoSchedule"),
      ),
    )
    .map(([{ name }, text]) => `--${name}=${text}`),
  fc.constantFrom(...flags).map(({ name }) => `--${name}`),
  fc.string({ maxLength: 10 }),
  fc.constantFrom("--", "-", "-v", "-v2", "-vvv", "---", "--=", "-h=", "-\u00e9"),
);

test(
  "any command line loads or throws a ConfigError",
  async () => {
    let accepted = 0;
    const isHarmless = (word: string) => !/^--config/.test(word);
    const property = fc.asyncProperty(
      fc.oneof(
        fc.array(anyFlag.filter(isHarmless), { maxLength: 6 }),
        fc.array(soundFlag, { minLength: 1, maxLength: 2 }),
      ),
      async (argv) => {
        const loaded = await load(argv);
        if (loaded?.kind === "config" && argv.length > 0) accepted += 1;
      },
    );
    await fc.assert(property, { numRuns: wholeRuns });
    // Of the ten runs of the quick check none may be accepted by chance.
    expect(accepted).toBeGreaterThanOrEqual(Math.floor(wholeRuns / 20));
  },
  longMs,
);

test(
  "a loaded configuration, written to a file, loads as itself",
  async () => {
    let accepted = 0;
    const property = fc.asyncProperty(soundFields(12), async (fields) => {
      const loaded = await load([], JSON.stringify({ ...head, ...fields }));
      if (loaded?.kind !== "config") return;
      accepted += 1;
      const again = await load([], JSON.stringify(loaded.kubelet));
      const shown = ({ config, kubelet }: typeof loaded) => JSON.stringify({ config, kubelet });
      expect(again?.kind === "config" && shown(again)).toBe(shown(loaded));
    });
    await fc.assert(property, { numRuns: wholeRuns });
    expect(accepted).toBeGreaterThan(wholeRuns / 10);
  },
  longMs,
);

const patchable = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, 1, "x"),
    fc.array(fc.constantFrom(1, null), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value")) as fc.Arbitrary<Json>,
  ),
})).value;

test(
  "mergePatch follows RFC 7386 and is idempotent",
  () => {
    const property = fc.property(patchable, patchable, (target, patch) => {
      const merged = mergePatch(toNode(target, "file"), toNode(patch, "patch"));
      expect(toJson(merged)).toEqual(applyRfc7386(target, patch));
      expect(toJson(mergePatch(merged, toNode(patch, "patch")))).toEqual(toJson(merged));
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "an empty patch changes nothing",
  () => {
    const property = fc.property(fc.dictionary(fc.constantFrom("a", "b"), patchable), (target) => {
      expect(toJson(mergePatch(toNode(target, "file"), toNode({}, "patch")))).toEqual(target);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

/** The pseudo code of RFC 7386. */
function applyRfc7386(target: Json | undefined, patch: Json): Json {
  if (!isMap(patch)) return patch;
  const result = new Map(isMap(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) result.delete(name);
    else result.set(name, applyRfc7386(result.get(name), value));
  }
  return Object.fromEntries(result);
}

function isMap(json: Json | undefined): json is { readonly [key: string]: Json } {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/** A value that the row accepts; undefined when only the default is certain to be valid. */
function soundValue({ type, allowed, range, must, default: byDefault }: Field): fc.Arbitrary<Json | undefined> {
  const others = fc.constant(byDefault);
  if (type === "[]string" && allowed) return fc.uniqueArray(fc.constantFrom(...allowed), { maxLength: 2 });
  if (allowed && type === "string") return fc.constantFrom(...allowed);
  if (range && typeof range[0] === "number" && type !== "*float64")
    return fc.integer({ min: range[0], max: Math.min(Number(range[1]), 2 ** 31 - 1) });
  if (type === "bool" || type === "*bool") return fc.boolean();
  if (type === "Duration") return fc.constantFrom("1s", "1m30s", "250ms", "2h", "0s");
  if (type === "string" && must === undefined) return fc.constantFrom("", "/x", "0", "yes", "0644", "a: b");
  return others;
}

function withoutUndefined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
