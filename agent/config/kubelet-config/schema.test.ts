import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { DEFAULT_ORIGIN, emptyMap, type Json, toJson } from "../../../proto/yaml/value-node.ts";
import fields from "../../../test/golden/kubelet-config.json" with { type: "json" };
import kubeletDefaults from "../../../test/golden/kubelet-config-defaults.json" with { type: "json" };
import { parseDuration } from "../fields/duration.ts";
import { valueChecks } from "../fields/value-checks.ts";
import { flagGroups } from "../flags/flag-table.ts";
import { applyDefaults } from "./defaults.ts";
import { featureGates } from "./feature-gates.ts";
import type { Field } from "./field.ts";
import { resolveGates } from "./gates.ts";
import { schema } from "./schema.ts";

const golden = join(import.meta.dirname, "../../../test/golden");
const rows: readonly (readonly [string, Field])[] = Object.entries(schema);

describe("the schema", () => {
  test("has every field of Kubernetes' type, with its type, and no other", () => {
    const ours = Object.fromEntries(rows.map(([path, { type }]) => [path, type]));
    expect(ours).toEqual(fields as Record<string, Field["type"]>);
  });

  test("states for every unimplemented field what happens instead", () => {
    const silent = rows.filter(
      ([path, { implemented, insteadMessage }]) => !implemented && !insteadMessage && !path.includes("[]"),
    );
    expect(silent).toEqual([]);
  });

  test("has defaults that pass its own checks", () => {
    const wrong = rows.filter(([, { default: value, allowed, must }]) => {
      if (value === undefined) return false;
      const parts = typeof value === "object" ? Object.values(value ?? {}) : [value];
      return parts.some(
        (part) => (allowed && !allowed.some((one) => one === part)) || (must && !valueChecks[must](String(part))),
      );
    });
    expect(wrong).toEqual([]);
  });
});

describe("the defaults", () => {
  const ours = toJson(applyDefaults(emptyMap(DEFAULT_ORIGIN), resolveGates(new Map())));

  test("equal the kubelet's for a configuration file", () => {
    expect(differences("", ours, kubeletDefaults as Json)).toEqual([
      // Recorded from the kubelet's loader after defaulting.
      ".apiVersion",
      ".kind",
      ".evictionHard",
    ]);
  });

  test("of eviction equal the kubelet's on Linux", () => {
    expect(ours).toHaveProperty("evictionHard", {
      "memory.available": "100Mi",
      "nodefs.available": "10%",
      "nodefs.inodesFree": "5%",
      "imagefs.available": "15%",
      "imagefs.inodesFree": "5%",
    });
  });

  test("do not change when they are applied twice", () => {
    const once = applyDefaults(emptyMap(DEFAULT_ORIGIN), resolveGates(new Map()));
    expect(applyDefaults(once, resolveGates(new Map()))).toEqual(once);
  });
});

test("the feature gate table equals the kubelet's", async () => {
  const lines = Object.entries(featureGates).map(
    ([name, gate]) => `${name} ${gate.default ? "on" : "off"} ${gate.stage}${gate.locked ? " locked" : ""}\n`,
  );
  expect(lines.join("")).toBe(await Bun.file(join(golden, "kubelet-feature-gates.txt")).text());
});

test("the flag table equals the kubelet's, plus the seven of Berth", async () => {
  const own = [
    "in-cluster",
    "early-probes",
    "keep-referenced-objects",
    "set-kernel-tunables",
    "network",
    "network-owner",
    "network-delegate-dir",
  ];
  // The kubelet's help derives this type name from the back-quoted word of the flag's description.
  const shown = (name: string, type: string) => (name === "seccomp-default" ? "RuntimeDefault" : type);
  const lines = flagGroups
    .flatMap(({ flags }) => flags)
    .filter(({ name }) => !own.includes(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, type, shorthand, deprecated }) => {
      const ending = deprecated ? " deprecated" : "";
      return `${shorthand ? `-${shorthand}, ` : ""}--${name} ${shown(name, type)}${ending}\n`;
    });
  expect(lines.join("")).toBe(await Bun.file(join(golden, "kubelet-flags.txt")).text());
});

/** The paths at which two values differ, ignoring Go's omitted zeros and its duration format. */
function differences(path: string, ours: Json | undefined, theirs: Json | undefined): readonly string[] {
  if (isMap(ours) && (isMap(theirs) || (theirs === undefined && Object.keys(ours).length === 0))) {
    const names = new Set([...Object.keys(ours), ...Object.keys(theirs ?? {})]);
    return [...names].flatMap((name) => differences(`${path}.${name}`, ours[name], theirs?.[name]));
  }
  const isZero = [ours === "", ours === 0, ours === false, Array.isArray(ours) && ours.length === 0].includes(true);
  if (theirs === undefined && isZero) return [];
  const isSameDuration =
    typeof ours === "string" && typeof theirs === "string" && parseDuration(ours) === parseDuration(theirs);
  if (isSameDuration && parseDuration(String(ours)) !== undefined) return [];
  return JSON.stringify(ours) === JSON.stringify(theirs) ? [] : [path];
}

function isMap(json: Json | undefined): json is { readonly [key: string]: Json } {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}
