import { crc32 } from "node:zlib";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { describeFieldError, type FieldError } from "../../proto/kubernetes/validation/field-error.ts";
import type { DesiredPod, Termination } from "../decide/pod/desired.ts";

/**
 * The durable record of the pods that this node has taken: one file a pod, written when it is taken, when what is wanted of it
 * changes, when nothing holds it any more, and when it has to end. It lets a new agent grant the rest of a grace period, keep
 * `startTime`, and run the last good version of a manifest that was broken since.
 */
export interface PodRecords {
  /** All that can be read, oldest first. What cannot is set aside under another name, and said. */
  load(): Promise<readonly DesiredPod[]>;
  save(pod: DesiredPod): Promise<void>;
  remove(uid: PodUid): Promise<void>;
}

/** A record that was torn, changed by hand, or written by another release. */
class RecordError extends Error {
  override readonly name = "RecordError";
  readonly code: "FOREIGN" | "VERSION" | "TORN" | "SHAPE";
  constructor(code: RecordError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const FOLDER = "berth/pods";
const VERSION = 1;
const MOST_BYTES = 8 << 20;
const SUFFIX = ".json";

/** `root` is the agent's root directory. */
export function createPodRecords(root: Files, log: Log): PodRecords {
  async function read(name: string): Promise<readonly DesiredPod[]> {
    const path = `${FOLDER}/${name}`;
    try {
      return [await decodeRecord(await root.read(path, MOST_BYTES))];
    } catch (error) {
      if (!isHopeless(error)) throw error;
      const aside = `${path}.unreadable`;
      log.error(
        { err: error, file: root.path(path), aside: root.path(aside) },
        "a pod's record is unreadable and set aside",
      );
      await root.rename(path, aside);
      return [];
    }
  }

  return {
    async load() {
      await root.makeFolder("berth", 0o700);
      await root.makeFolder(FOLDER, 0o700);
      const entries = (await root.list(FOLDER)) ?? [];
      const leftovers = entries.filter(({ name }) => name.endsWith(".tmp"));
      for (const { name } of leftovers) await root.remove(`${FOLDER}/${name}`);
      const records = await Promise.all(
        entries.filter(({ name }) => name.endsWith(SUFFIX)).map(({ name }) => read(name)),
      );
      return records.flat().toSorted((a, b) => a.acceptedAt - b.acceptedAt);
    },
    save: async (pod) => root.write(`${FOLDER}/${await fileOf(pod.uid)}`, encodeRecord(pod), 0o600),
    remove: async (uid) => root.remove(`${FOLDER}/${await fileOf(uid)}`),
  };
}

/** A uid is hexadecimal or a UUID. Anything else, which a manifest may say, is named by its digest; no plain uid has a `_`. */
async function fileOf(uid: PodUid): Promise<string> {
  if (/^[A-Za-z0-9-]{1,128}$/.test(uid)) return `${uid}${SUFFIX}`;
  const { createHash } = await import("node:crypto");
  return `sha256_${createHash("sha256").update(uid).digest("hex")}${SUFFIX}`;
}

function encodeRecord(pod: DesiredPod): string {
  const record = JSON.stringify(pod);
  return `{"version":${VERSION},"crc32":${checksumOf(record)},"record":${record}}\n`;
}

/** True where another try would read the same. A disk that fails for a moment must not cost a good record its name. */
function isHopeless(error: unknown): boolean {
  if (error instanceof RecordError) return true;
  return error instanceof FilesError && HOPELESS.has(error.code);
}

const HOPELESS: ReadonlySet<string> = new Set(["ETOOBIG", "ENOTFILE", "EISDIR", "ERR_ENCODING_INVALID_ENCODED_DATA"]);

/** Rejects with `RecordError`. */
async function decodeRecord(text: string): Promise<DesiredPod> {
  const head = /^\{"version":(\d+),"crc32":(\d+),"record":/.exec(text);
  if (head === null) throw new RecordError("FOREIGN", "it does not begin as a record does");
  const [whole, version, sum] = head;
  if (Number(version) !== VERSION)
    throw new RecordError("VERSION", `it has version ${version}; this release knows version ${VERSION}`);
  const record = text.slice(whole.length, -2);
  if (!text.endsWith("}\n") || checksumOf(record) !== Number(sum))
    throw new RecordError("TORN", "it is torn or was changed: its checksum does not fit");
  return await shapedAs(parsed(record));
}

/** A checksum is right by chance too, and of nothing it is 0. */
function parsed(record: string): unknown {
  try {
    return JSON.parse(record);
  } catch (cause) {
    throw new RecordError("SHAPE", "its checksum fits, and it is no JSON", { cause });
  }
}

/** Decisions are total over pods, not over whatever an earlier release may have let pass and recorded. */
async function shapedAs(record: unknown): Promise<DesiredPod> {
  const desired = record as Unchecked<DesiredPod> | null;
  const [wrong] = isOfApi(desired) ? await oddities(desired?.pod) : await shapeErrors(desired?.pod);
  if (isFramed(desired) && wrong === undefined) return desired as DesiredPod;
  const why = wrong === undefined ? "a field of its frame is missing" : describeFieldError(wrong);
  throw new RecordError("SHAPE", `it is whole, and no record of this release: ${why}`);
}

async function shapeErrors(pod: unknown): Promise<readonly FieldError[]> {
  // Loaded with the first record of a manifest: an agent without any has no need of it in its memory.
  const { checkPodShape } = await import("../../proto/kubernetes/decode/strict-decode.ts");
  return checkPodShape({ apiVersion: "v1", kind: "Pod", ...(pod as object) }).errors ?? [];
}

/** An API server may be newer than this release, and has judged its pods itself. */
async function oddities(pod: unknown): Promise<readonly FieldError[]> {
  const { readTold } = await import("../../proto/kubernetes/decode/lenient-decode.ts");
  return [readTold("Pod", pod).problem ?? []].flat();
}

/** What it says, field by field, if it says that at all. */
type Unchecked<T> = { readonly [Field in keyof T]?: unknown };

function isOfApi(desired: Unchecked<DesiredPod> | null): boolean {
  const { kind } = (desired?.source ?? {}) as { readonly kind?: unknown };
  return kind === "api";
}

function isFramed(desired: Unchecked<DesiredPod> | null): boolean {
  const { uid, acceptedAt, heldUntil = 0, revision } = desired ?? {};
  const { metadata, spec } = (desired?.pod ?? {}) as Unchecked<Pod>;
  const { kind, path, url } = (desired?.source ?? {}) as { readonly kind?: unknown; path?: unknown; url?: unknown };
  const whole = { requestedAt: 0, gracePeriodSeconds: 0, why: "" };
  const { requestedAt, gracePeriodSeconds, why } = (desired?.termination ?? whole) as Unchecked<Termination>;
  const isPlaced =
    isOfApi(desired) ||
    (kind === "file" ? typeof path === "string" : kind === "http" && typeof url === "string" && URL.canParse(url));
  return (
    isPlaced &&
    isObject(metadata) &&
    isObject(spec) &&
    "containers" in spec &&
    Array.isArray(spec.containers) &&
    [uid, why].every((each) => typeof each === "string") &&
    [acceptedAt, heldUntil, revision, requestedAt, gracePeriodSeconds].every((each) => typeof each === "number")
  );
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** CRC-32: against torn writes and worn cards, not against people; who may write here is root already. */
function checksumOf(text: string): number {
  return crc32(text);
}
