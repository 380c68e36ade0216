import { type Json, type MapNode, setAt, shorten, toNode, type ValueNode } from "../../../proto/yaml/value-node.ts";
import { describeExpectation } from "../fields/value-description.ts";
import { fieldAt } from "../kubelet-config/config-fields.ts";
import type { Problem } from "../problem.ts";
import type { GivenFlag } from "./command-line.ts";
import type { Flag } from "./flag.ts";
import { parseFlag } from "./flag-value.ts";

/** The value of one flag; repetitions are merged. */
export interface FlagOverride {
  readonly flag: Flag;
  readonly value: Json;
}

export interface FlagOverrides {
  /** The overrides by flag name. */
  readonly byName: ReadonlyMap<string, FlagOverride>;
  readonly problems: readonly Problem[];
}

/** Parses the values of the given flags. A problem names the flag, the value found and the value expected. */
export function parseFlagOverrides(given: readonly GivenFlag[]): FlagOverrides {
  const texts = Map.groupBy(given, ({ flag }) => flag);
  const byName = new Map<string, FlagOverride>();
  const problems: Problem[] = [];
  for (const [flag, occurrences] of texts) {
    const result = parseFlag(
      flag,
      occurrences.map(({ text }) => text),
    );
    if ("value" in result) byName.set(flag.name, { flag, value: result.value });
    else {
      const found = flag.secret ? "a value that is not shown" : shorten(JSON.stringify(occurrences.at(-1)?.text));
      const expected = rangeOf(flag) ?? result.expected;
      problems.push({ where: originOf(flag), field: "", message: `found ${found}, must be ${expected}` });
    }
  }
  return { byName, problems };
}

/** Applies the flags that set fields. Feature gates are merged one by one, all other values are replaced. */
export function applyFlagOverrides(config: MapNode, { byName }: FlagOverrides): MapNode {
  let applied = config;
  for (const { flag, value } of byName.values()) {
    if (flag.field === undefined) continue;
    const node = toNode(value, originOf(flag));
    applied = setAt(applied, flag.field.split("."), flag.field === "featureGates" ? mergeGates(applied, node) : node);
  }
  return applied;
}

/** One warning for each flag without a field that is not implemented yet. */
export function flagWarnings({ byName }: FlagOverrides): readonly string[] {
  return [...byName.values()]
    .filter(({ flag, value }) => !flag.implemented && String(value) !== (flag.default ?? ""))
    .map(({ flag, value }) => {
      const shown = flag.secret ? "" : ` ${shorten(JSON.stringify(value))}`;
      return `${originOf(flag)}${shown} is known but not implemented yet: ${flag.insteadMessage}`;
    });
}

/** The range of an integer field, which is narrower than that of the flag's type. */
function rangeOf({ type, field }: Flag): string | undefined {
  const row = field === undefined || !["int", "int32"].includes(type) ? undefined : fieldAt(field);
  return row?.range === undefined ? undefined : describeExpectation(row);
}

function mergeGates(config: MapNode, given: ValueNode): ValueNode {
  const before = config.entries.get("featureGates");
  if (before?.kind !== "map" || given.kind !== "map") return given;
  return { ...before, entries: new Map([...before.entries, ...given.entries]) };
}

function originOf({ name }: Flag): string {
  return name === "v" ? "-v" : `--${name}`;
}
