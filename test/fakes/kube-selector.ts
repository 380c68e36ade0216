import type { KubeObject, Selector } from "../../kube/resource.ts";
import { isJsonObject } from "./kube-patch.ts";

/**
 * Whether an object matches the field selector (`=`, `==`, `!=`) and the label selector (also `in`, `notin`, `key`,
 * `!key`).
 */
export function matchesSelector(object: KubeObject, { fieldSelector = "", labelSelector = "" }: Selector): boolean {
  const labels = object.metadata.labels ?? {};
  return (
    termsOf(fieldSelector).every((term) => matchesTerm(term, (path) => fieldOf(object, path) ?? "")) &&
    termsOf(labelSelector).every((term) => matchesTerm(term, (name) => labels[name]))
  );
}

/** Splits a selector at its commas, except within parentheses. */
const termsOf = (selector: string) => (selector === "" ? [] : selector.split(/,(?![^(]*\))/));

function matchesTerm(term: string, lookUp: (name: string) => string | undefined): boolean {
  const [, name = "", operator = "", value = ""] = /^([^=!]+?)\s*(==|!=|=)\s*(.*)$/.exec(term.trim()) ?? [];
  if (operator !== "") return (lookUp(name) === value) === (operator !== "!=");
  const [, key = "", not, values = ""] = /^(\S+) (notin|in) \((.*)\)$/.exec(term.trim()) ?? [];
  if (key !== "") {
    const isAmong = values.split(",").some((each) => each.trim() === lookUp(key));
    return isAmong === (not !== "notin");
  }
  return term.startsWith("!") ? lookUp(term.slice(1)) === undefined : lookUp(term) !== undefined;
}

function fieldOf(object: KubeObject, path: string): string | undefined {
  const value = path.split(".").reduce<unknown>((part, key) => (isJsonObject(part) ? part[key] : undefined), object);
  return value === undefined ? undefined : String(value);
}
