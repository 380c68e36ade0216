import { type Json, type MapNode, type Node, nodeOf, setAt, shorten } from "../../../proto/yaml/value-node.ts";
import { fieldAt } from "../fields/field-tree.ts";
import { describeExpectation } from "../fields/value-description.ts";
import type { Problem } from "../problem.ts";
import type { GivenFlag } from "./command-line.ts";
import type { Flag } from "./flag.ts";
import { readFlag } from "./flag-value.ts";

/** What one flag was set to, all its repetitions together. */
export interface Setting {
  readonly flag: Flag;
  readonly value: Json;
}

export interface Settings {
  /** By the flag's name. */
  readonly byName: ReadonlyMap<string, Setting>;
  readonly problems: readonly Problem[];
}

/** Reads the values of the flags given, and names each that is wrong with what was found and what would be right. */
export function readSettings(given: readonly GivenFlag[]): Settings {
  const texts = Map.groupBy(given, ({ flag }) => flag);
  const byName = new Map<string, Setting>();
  const problems: Problem[] = [];
  for (const [flag, uses] of texts) {
    const reading = readFlag(
      flag,
      uses.map(({ text }) => text),
    );
    if ("value" in reading) byName.set(flag.name, { flag, value: reading.value });
    else {
      const found = flag.secret ? "a value that is not shown" : shorten(JSON.stringify(uses.at(-1)?.text));
      const expected = rangeOf(flag) ?? reading.expected;
      problems.push({ where: originOf(flag), field: "", message: `found ${found}, must be ${expected}` });
    }
  }
  return { byName, problems };
}

/** Lays the flags that set fields over the configuration. Feature gates are added one by one, all else replaces. */
export function applySettings(config: MapNode, { byName }: Settings): MapNode {
  let applied = config;
  for (const { flag, value } of byName.values()) {
    if (flag.field === undefined) continue;
    const node = nodeOf(value, originOf(flag));
    applied = setAt(applied, flag.field.split("."), flag.field === "featureGates" ? addGates(applied, node) : node);
  }
  return applied;
}

/** One line for each flag without a field that is not carried out yet. */
export function settingWarnings({ byName }: Settings): readonly string[] {
  return [...byName.values()]
    .filter(({ flag, value }) => !flag.implemented && String(value) !== (flag.default ?? ""))
    .map(({ flag, value }) => {
      const shown = flag.secret ? "" : ` ${shorten(JSON.stringify(value))}`;
      return `${originOf(flag)}${shown} is known but not implemented yet: ${flag.instead}`;
    });
}

/** What a whole number may be by the field that the flag sets, which is less than what its type holds. */
function rangeOf({ type, field }: Flag): string | undefined {
  const row = field === undefined || !["int", "int32"].includes(type) ? undefined : fieldAt(field);
  return row?.range === undefined ? undefined : describeExpectation(row);
}

function addGates(config: MapNode, given: Node): Node {
  const before = config.entries.get("featureGates");
  if (before?.kind !== "map" || given.kind !== "map") return given;
  return { ...before, entries: new Map([...before.entries, ...given.entries]) };
}

function originOf({ name }: Flag): string {
  return name === "v" ? "-v" : `--${name}`;
}
