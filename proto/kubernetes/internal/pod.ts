import { isObject } from "../../is-object.ts";
import { utf8 } from "../../utf8.ts";
import { decodeStatus } from "../decode/strict-decode.ts";
import { defaultPod } from "../defaults/pod.ts";
import type { Pod, PodStatus } from "../gen/types.ts";
import { initContainerAnnotations } from "../well-known-names.ts";
import { decodeQuantity, dumpQuantity, type InternalQuantity, roundQuantity } from "./quantity.ts";
import { withResourceDefaults } from "./resources.ts";
import types from "./types.json" with { type: "json" };

/** A field of a Go struct. Without a JSON name its struct is inlined in JSON, or JSON cannot set it. */
interface GoField {
  readonly name: string;
  readonly type: string;
  readonly json: string | undefined;
}

/** The structs of Kubernetes' internal types, with their fields in Go's order. */
const structs: ReadonlyMap<string, readonly GoField[]> = new Map(
  Object.entries(types.structs).map(([struct, fields]) => [struct, fields.map(readField)]),
);
/** The underlying types of the named types that are no structs. */
const named: ReadonlyMap<string, string> = new Map(Object.entries(types.named));

function readField(line: string): GoField {
  const [name = "", type = "", json] = line.split(" ");
  return { name, type, json };
}

/**
 * The text that the kubelet hashes for the uid of a static pod: Go's dump of the pod, with the API's defaults, in
 * Kubernetes' internal types. The manifest must have been decoded (decodeStrict). Rule: applyDefaults in the kubelet's
 * pkg/kubelet/config/common.go; k8s.io/utils/dump, ForHash; go-spew's format for `%#v`.
 *
 * Times are printed as in the time zone UTC, with Debian's file for it: Go prints the zone of the process.
 */
export function dumpInternalPod(manifest: Pod): string {
  const { status: writtenStatus, ...others } = manifest;
  const status = writtenStatus && decodeStatus(writtenStatus);
  const pod: Pod = { ...others, ...(status && { status }) };
  return `(*core.Pod)${dumpValue("core.Pod", convertPod(defaultPod(pod)), withResourceDefaults(pod))}`;
}

/** Rule: Convert_v1_Pod_To_core_Pod. The Go types have no `kind` and `apiVersion` once converted. */
function convertPod({ metadata, spec, status }: Pod): unknown {
  const { hostNetwork, hostPID, hostIPC, shareProcessNamespace, hostUsers, terminationGracePeriodSeconds = 0 } = spec;
  const host = { hostNetwork, hostPID, hostIPC, shareProcessNamespace, hostUsers };
  return {
    metadata: { ...metadata, annotations: withoutInitContainers(metadata.annotations) },
    spec: {
      ...spec,
      securityContext: { ...spec.securityContext, ...host },
      terminationGracePeriodSeconds: terminationGracePeriodSeconds < 0 ? 1 : terminationGracePeriodSeconds,
    },
    status: status && convertStatus(status),
  };
}

/** A single address wins over a list that does not begin with it. Rule: Convert_v1_PodStatus_To_core_PodStatus. */
function convertStatus(status: PodStatus): PodStatus {
  const { podIP = "", podIPs = [] } = status;
  return podIP === "" || podIPs[0]?.ip === podIP ? status : { ...status, podIPs: [{ ip: podIP }] };
}

/** Rule: dropInitContainerAnnotations. */
function withoutInitContainers(annotations: Readonly<Record<string, string>> | undefined) {
  return (
    annotations && Object.fromEntries(Object.entries(annotations).filter(([key]) => !initContainerAnnotations.has(key)))
  );
}

/**
 * Prints a value of a Go type, without the type. `written` is the same place in the manifest, from which quantities are
 * read: their form depends on how they were written.
 */
function dumpValue(type: string, value: unknown, written: unknown): string {
  const fields = structs.get(type);
  if (fields !== undefined) return dumpStruct(fields, value, written);
  if (type.startsWith("*")) return isUnset(value) ? "<nil>" : dumpValue(type.slice(1), value, written);
  if (type.startsWith("[]")) return dumpSlice(type.slice(2), value, written);
  if (type === "core.ResourceList") return dumpResourceList(written, (quantity) => roundQuantity(quantity));
  if (type === "map[core.ResourceName]resource.Quantity") return dumpResourceList(written, (quantity) => quantity);
  if (type.startsWith("map[string]")) return dumpMap(type.slice("map[string]".length), value);
  return dumpScalar(type, value, written);
}

function isUnset(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function dumpStruct(fields: readonly GoField[], value: unknown, written: unknown): string {
  const texts = fields.map(({ name, type, json }) => {
    const [inner, innerWritten] = [value, written].map((parent) => (json === undefined ? parent : at(parent, json)));
    return `${name}:(${type})${dumpValue(type, inner, innerWritten)}`;
  });
  return `{${texts.join(" ")}}`;
}

function at(parent: unknown, key: string): unknown {
  return isObject(parent) ? parent[key] : undefined;
}

function dumpSlice(type: string, value: unknown, written: unknown): string {
  if (!Array.isArray(value)) return "<nil>";
  const items: readonly unknown[] = Array.isArray(written) ? written : [];
  return `[${value.map((item, index) => dumpValue(type, item, items[index])).join(" ")}]`;
}

function dumpMap(type: string, value: unknown): string {
  if (!isObject(value)) return "<nil>";
  return `map[${sortedEntries(value)
    .map(([key, item]) => `${key}:${dumpValue(type, item, undefined)}`)
    .join(" ")}]`;
}

function dumpResourceList(written: unknown, round: (quantity: InternalQuantity) => InternalQuantity): string {
  if (!isObject(written)) return "<nil>";
  return `map[${sortedEntries(written)
    .map(([name, item]) => `${name}:${dumpQuantity(round(toQuantity(item)))}`)
    .join(" ")}]`;
}

function toQuantity(written: unknown): InternalQuantity {
  if (isInternalQuantity(written)) return written;
  return decodeQuantity(isUnset(written) ? undefined : String(written));
}

/** A sum, which no text of the manifest says. */
function isInternalQuantity(written: unknown): written is InternalQuantity {
  return isObject(written) && typeof written["value"] === "bigint";
}

/** Sorted by key as Go sorts strings: by their bytes in UTF-8. */
function sortedEntries(object: { readonly [key: string]: unknown }): readonly (readonly [string, unknown])[] {
  return Object.entries(object).toSorted(([a], [b]) => compareBytes(a, b));
}

function compareBytes(a: string, b: string): number {
  const [left, right] = [utf8(a), utf8(b)];
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at === -1 ? left.length - right.length : (left[at] ?? 0) - (right[at] ?? -1);
}

function dumpScalar(type: string, value: unknown, written: unknown): string {
  switch (named.get(type) ?? type) {
    case "string":
      return isUnset(value) ? "" : String(value);
    case "bool":
      return String(value === true);
    case "int32":
    case "int64":
      return isUnset(value) ? "0" : String(value);
    case "resource.Quantity":
      return dumpQuantity(toQuantity(written));
    case "intstr.IntOrString":
      return dumpIntOrString(value);
    case "v1.Time":
      return `{Time:(time.Time)${dumpTime(value)}}`;
    case "v1.FieldsV1":
      return `{Raw:([]uint8)${isUnset(value) ? "<nil>" : `[${utf8(compactJson(value)).join(" ")}]`}}`;
    default:
      throw new Error(`no rule for the Go type ${type}`);
  }
}

function dumpIntOrString(value: unknown): string {
  const isText = typeof value === "string";
  const [number, text] = isText ? [0, value] : [value ?? 0, ""];
  return `{Type:(intstr.Type)${isText ? 1 : 0} IntVal:(int32)${number} StrVal:(string)${text}}`;
}

/** Go counts from the first of January of year 1. */
const YEAR_ONE_SECONDS = -62135596800n;

/** Rule: time.Time. */
function dumpTime(value: unknown): string {
  if (isUnset(value)) return "{wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}";
  const [, fraction = ""] = /\.(\d{1,9})/.exec(String(value)) ?? [];
  const seconds = BigInt(Math.floor(Date.parse(String(value).replace(/\.\d+/, "")) / 1000)) - YEAR_ONE_SECONDS;
  return `{wall:(uint64)${Number(fraction.padEnd(9, "0"))} ext:(int64)${seconds} loc:(*time.Location)${utcLocation}}`;
}

const minInt64 = "-9223372036854775808";
const maxInt64 = "9223372036854775807";
const utcZone = "{name:(string)UTC offset:(int)0 isDST:(bool)false}";
const utcTransition = `{when:(int64)${minInt64} index:(uint8)0 isstd:(bool)false isutc:(bool)false}`;
const utcLocation = `{name:(string)Local zone:([]time.zone)[${utcZone}] tx:([]time.zoneTrans)[${utcTransition}] extend:(string)UTC0 cacheStart:(int64)${minInt64} cacheEnd:(int64)${maxInt64} cacheZone:(*time.zone)${utcZone}}`;

/** JSON as Go writes what it has read from YAML: with sorted keys. */
function compactJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(compactJson).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  return `{${sortedEntries(value)
    .map(([key, item]) => `${JSON.stringify(key)}:${compactJson(item)}`)
    .join(",")}}`;
}
