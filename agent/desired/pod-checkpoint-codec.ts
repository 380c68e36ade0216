import { crc32 } from "node:zlib";
import type { PodUid } from "../../proto/ids.ts";
import { isObject } from "../../proto/is-object.ts";
import type { Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { describeFieldError, type FieldError } from "../../proto/kubernetes/validation/field-error.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import {
  type AllocationRecord,
  fromAllocationRecord,
  isAllocationRecord,
  toAllocationRecord,
} from "./pod-allocation-codec.ts";

/**
 * The checkpoint of one pod as it lies on disk, in `berth/pods/UID.json`:
 *
 *     {"version":1,"crc32":CHECKSUM OF THE RECORD'S TEXT,"record":RECORD}
 *
 * The field names here are the format. They are spelled out once more, apart from `DesiredPod`, so that a rename in the code cannot change what
 * an earlier or a later release reads. A field with another name or meaning needs another version.
 */
interface PodRecord {
  readonly uid: string;
  /** As its source gave it, with the defaults of the API. */
  readonly pod: Pod;
  readonly source:
    | { readonly kind: "file"; readonly path: string }
    | { readonly kind: "http"; readonly url: string }
    | { readonly kind: "api" };
  /** Epoch milliseconds. */
  readonly acceptedAt: number;
  /** Epoch milliseconds. */
  readonly heldUntil?: number;
  readonly revision: number;
  readonly termination?: {
    /** Epoch milliseconds. */
    readonly requestedAt: number;
    readonly gracePeriodSeconds: number;
    readonly why: string;
  };
  /** The node's own request. Earlier releases ignore it: the pod of such a record runs on there. */
  readonly terminationRequest?: {
    readonly reason: string;
    readonly message: string;
    readonly disruption?: { readonly reason: string; readonly message: string };
    readonly gracePeriodSeconds: number;
    /** Epoch milliseconds. */
    readonly requestedAt: number;
  };
  readonly admission?:
    | { readonly kind: "awaited" }
    | { readonly kind: "rejected"; readonly reason: string; readonly message: string };
  readonly isPlaceFree?: true;
  /** Of an admitted pod of the API. Earlier releases wrote none: the recorded pod has what it requests. */
  readonly allocation?: AllocationRecord;
  readonly lastStatus?: PodStatus;
}

type RequestRecord = NonNullable<PodRecord["terminationRequest"]>;

/** A checkpoint that is torn, was changed by hand, or was written by another release. */
export class PodRecordError extends Error {
  override readonly name = "PodRecordError";
  readonly code: "FOREIGN" | "VERSION" | "TORN" | "SHAPE";
  constructor(code: PodRecordError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const VERSION = 1;

/** The text of a pod's checkpoint, which ends with a newline. */
export function encodePodRecord(desired: DesiredPod): string {
  const record = JSON.stringify(toRecord(desired));
  return `{"version":${VERSION},"crc32":${checksumOf(record)},"record":${record}}\n`;
}

/** The pod of a checkpoint's text. Rejects with `PodRecordError`. */
export async function decodePodRecord(text: string): Promise<DesiredPod> {
  const head = /^\{"version":(\d+),"crc32":(\d+),"record":/.exec(text);
  if (head === null) throw new PodRecordError("FOREIGN", "it does not start like a checkpoint");
  const [whole, version, sum] = head;
  if (Number(version) !== VERSION)
    throw new PodRecordError("VERSION", `it has version ${version}; this release supports version ${VERSION}`);
  const record = text.slice(whole.length, -2);
  if (!text.endsWith("}\n") || checksumOf(record) !== Number(sum))
    throw new PodRecordError("TORN", "it is torn or was changed: its checksum does not match");
  return fromRecord(await checkRecord(parseRecord(record)));
}

function toRecord(desired: DesiredPod): PodRecord {
  const { uid, pod, source, acceptedAt, heldUntil, revision, admission, hasReleasedResources, lastStatus } = desired;
  const { termination, terminationRequest, allocation } = desired;
  return {
    uid,
    pod,
    source: sourceRecord(source),
    acceptedAt,
    ...(heldUntil !== undefined && { heldUntil }),
    revision,
    ...(termination && { termination: terminationRecord(termination) }),
    ...(terminationRequest && { terminationRequest: terminationRequestRecord(terminationRequest) }),
    ...(admission && { admission: admissionRecord(admission) }),
    ...(hasReleasedResources && { isPlaceFree: hasReleasedResources }),
    ...(allocation && { allocation: toAllocationRecord(allocation) }),
    ...(lastStatus && { lastStatus }),
  };
}

function sourceRecord(source: DesiredPod["source"]): PodRecord["source"] {
  switch (source.kind) {
    case "file":
      return { kind: "file", path: source.path };
    case "http":
      return { kind: "http", url: source.url };
    case "api":
      return { kind: "api" };
  }
}

function terminationRecord({
  requestedAt,
  gracePeriodSeconds,
  why,
}: NonNullable<DesiredPod["termination"]>): NonNullable<PodRecord["termination"]> {
  return { requestedAt, gracePeriodSeconds, why };
}

function terminationRequestRecord({
  reason,
  message,
  disruption,
  gracePeriodSeconds,
  requestedAt,
}: NonNullable<DesiredPod["terminationRequest"]>): RequestRecord {
  return {
    reason,
    message,
    ...(disruption && { disruption: { reason: disruption.reason, message: disruption.message } }),
    gracePeriodSeconds,
    requestedAt,
  };
}

function admissionRecord(admission: NonNullable<DesiredPod["admission"]>): NonNullable<PodRecord["admission"]> {
  if (admission.kind === "awaited") return { kind: "awaited" };
  return { kind: "rejected", reason: admission.reason, message: admission.message };
}

function fromRecord(record: PodRecord): DesiredPod {
  const { uid, pod, source, acceptedAt, heldUntil, revision, admission, isPlaceFree, lastStatus } = record;
  const { termination, terminationRequest, allocation } = record;
  return {
    uid: uid as PodUid,
    pod,
    source,
    acceptedAt,
    ...(heldUntil !== undefined && { heldUntil }),
    revision,
    ...(termination && {
      termination: {
        requestedAt: termination.requestedAt,
        gracePeriodSeconds: termination.gracePeriodSeconds,
        why: termination.why,
      },
    }),
    ...(terminationRequest && { terminationRequest: terminationRequestRecord(terminationRequest) }),
    ...(admission && {
      admission:
        admission.kind === "awaited"
          ? { kind: "awaited" }
          : { kind: "rejected", reason: admission.reason, message: admission.message },
    }),
    ...(isPlaceFree && { hasReleasedResources: isPlaceFree }),
    ...(allocation && { allocation: fromAllocationRecord(allocation) }),
    ...(lastStatus && { lastStatus }),
  };
}

/** A checksum can match by chance, and that of an empty text is 0. */
function parseRecord(record: string): unknown {
  try {
    return JSON.parse(record);
  } catch (cause) {
    throw new PodRecordError("SHAPE", "its checksum matches, but it is not JSON", { cause });
  }
}

/** Decisions are total over valid pods, not over what an earlier release may have accepted and recorded. */
async function checkRecord(value: unknown): Promise<PodRecord> {
  const record = value as Unchecked<PodRecord> | null;
  const [wrong] = isFromApi(record) ? await lenientErrors(record?.pod) : await strictErrors(record?.pod);
  if (hasFrame(record) && wrong === undefined) return record as PodRecord;
  const why = wrong === undefined ? "a required field is missing" : describeFieldError(wrong);
  throw new PodRecordError("SHAPE", `it is complete, but not a checkpoint of this release: ${why}`);
}

async function strictErrors(pod: unknown): Promise<readonly FieldError[]> {
  // Loaded with the first record of a static pod: an agent without any keeps it out of its memory.
  const { decodeStrict } = await import("../../proto/kubernetes/decode/strict-decode.ts");
  return decodeStrict({ apiVersion: "v1", kind: "Pod", ...(pod as object) }).errors ?? [];
}

/** An API server may be newer than this release, and has validated its pods itself. */
async function lenientErrors(pod: unknown): Promise<readonly FieldError[]> {
  const { decodeLenient } = await import("../../proto/kubernetes/decode/lenient-decode.ts");
  return [decodeLenient("Pod", pod).problem ?? []].flat();
}

/** A parsed value whose fields may be of any type. */
type Unchecked<T> = { readonly [Field in keyof T]?: unknown };

function isFromApi(record: Unchecked<PodRecord> | null): boolean {
  return isObject(record?.source) && record.source["kind"] === "api";
}

/** Whether the fields around the pod are there and of their types. */
function hasFrame(record: Unchecked<PodRecord> | null): boolean {
  const { uid, acceptedAt, heldUntil = 0, revision } = record ?? {};
  const { metadata, spec } = (record?.pod ?? {}) as Unchecked<Pod>;
  const { kind, path, url } = (record?.source ?? {}) as { readonly kind?: unknown; path?: unknown; url?: unknown };
  const noTermination = { requestedAt: 0, gracePeriodSeconds: 0, why: "" };
  const { requestedAt, gracePeriodSeconds, why } = (record?.termination ?? noTermination) as Unchecked<
    NonNullable<PodRecord["termination"]>
  >;
  const hasSource =
    isFromApi(record) ||
    (kind === "file" ? typeof path === "string" : kind === "http" && typeof url === "string" && URL.canParse(url));
  return (
    hasSource &&
    isObject(metadata) &&
    isObject(spec) &&
    Array.isArray(spec["containers"]) &&
    [uid, why].every((each) => typeof each === "string") &&
    [acceptedAt, heldUntil, revision, requestedAt, gracePeriodSeconds].every((each) => typeof each === "number") &&
    (record?.terminationRequest === undefined || isTerminationRequest(record.terminationRequest)) &&
    (record?.allocation === undefined || isAllocationRecord(record.allocation))
  );
}

function isTerminationRequest(value: unknown): boolean {
  const { reason, message, disruption, gracePeriodSeconds, requestedAt } = (value ?? {}) as Unchecked<RequestRecord>;
  const disrupted = (disruption ?? { reason: "", message: "" }) as Unchecked<NonNullable<RequestRecord["disruption"]>>;
  return (
    [reason, message, disrupted.reason, disrupted.message].every((each) => typeof each === "string") &&
    [gracePeriodSeconds, requestedAt].every((each) => typeof each === "number")
  );
}

/** CRC-32: against torn writes and worn cards, not against people; only root can write here. */
function checksumOf(text: string): number {
  return crc32(text);
}
