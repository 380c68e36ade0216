import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path/posix";
import type { Instant } from "../../host/clock.ts";
import { isObject } from "../../proto/is-object.ts";
import { type AttachmentId, formatId } from "./attachment-names.ts";
import { codeOf, ifPresent } from "./if-present.ts";
import type { HostPort } from "./network-conf.ts";

/** What an attachment holds. It is written before anything of it is made, so that nothing is left over after a crash. */
export interface AttachmentRecord extends AttachmentId {
  /** With the length of the prefix. */
  readonly addresses: readonly string[];
  readonly gateways: readonly string[];
  readonly hostPorts: readonly HostPort[];
  /** The bridge that the pod is connected with. A record of an earlier release has none. */
  readonly bridgeName?: string;
}

/** Whose an attachment is, and since when. */
export interface AttachmentOrigin extends AttachmentId {
  /** The cache of the executors that have made it; undefined in a record of an earlier release. */
  readonly cacheDir: string | undefined;
  /** When the record was written, which is the first that ADD does. */
  readonly writtenAt: Instant;
}

/**
 * The record of one network: its attachments, and the addresses that they have. Synchronous, and without fsync: nothing of
 * a pod's network outlives a boot. Safe against another process that allocates at the same time, as the delegate does
 * while the agent is away.
 */
export interface AttachmentStore {
  /** Makes the folders of the record, before anything of the network is made. */
  makeFolders(): void;
  /** Sorted by their ids. Unreadable records are left out. */
  list(): readonly AttachmentRecord[];
  /** The origin of each attachment of `list`. */
  origins(): readonly AttachmentOrigin[];
  /** Undefined if there is none, or none that can be read. */
  find(id: AttachmentId): AttachmentRecord | undefined;
  /** Replaces the record as a whole. */
  write(attachment: AttachmentRecord): void;
  /** An absent record is success. */
  remove(id: AttachmentId): void;
  /** Gives an address to an attachment. False if another one has it. */
  reserve(address: string, id: AttachmentId): boolean;
  /** The addresses in use, with the id, as text, of the attachment that has each. */
  reserved(): ReadonlyMap<string, string>;
  /** The addresses in use, without their owners: one read of a folder. */
  reservedAddresses(): ReadonlySet<string>;
  /** Frees an address of this attachment. That of another one is kept. */
  release(address: string, id: AttachmentId): void;
  /** The last address of each set of ranges, as `writeLastAddresses` has written them; `[]` if there are none, or none that can be read. */
  lastAddresses(): readonly string[];
  writeLastAddresses(addresses: readonly string[]): void;
}

/**
 * Keeps the record in `folder`, in a file for each attachment, and a symlink to its id for each address. `cacheDir` is the cache of
 * this executor; one that only removes needs none.
 */
export function createAttachmentStore(folder: string, cacheDir?: string): AttachmentStore {
  const attachments = join(folder, "attachments");
  const addresses = join(folder, "addresses");
  const fileOf = (id: AttachmentId) => join(attachments, `${formatId(id)}.json`);
  const makeFolders = () => {
    for (const each of [attachments, addresses]) mkdirSync(each, { recursive: true, mode: 0o700 });
  };
  const names = (path: string) => ifPresent(() => readdirSync(path)) ?? [];
  const paths = () =>
    names(attachments)
      .filter((name) => name.endsWith(".json"))
      .toSorted()
      .map((name) => join(attachments, name));
  const lastAddresses = join(folder, "last-addresses.json");
  const ownerOf = (address: string) => ifPresent(() => readlinkSync(join(addresses, address)));
  return {
    makeFolders,
    list: () => paths().flatMap((path) => readAttachment(path) ?? []),
    origins: () => paths().flatMap((path) => ifPresent(() => readOrigin(path)) ?? []),
    find: (id) => readAttachment(fileOf(id)),
    write(attachment) {
      const temporary = `${fileOf(attachment)}.tmp`;
      const text = JSON.stringify({ ...attachment, ...(cacheDir !== undefined && { cacheDir }) });
      writeOrMakeFolders(() => writeFileSync(temporary, text, { mode: 0o600 }), makeFolders);
      renameSync(temporary, fileOf(attachment));
    },
    remove(id) {
      // A process that was killed while it wrote the record has left the other one.
      for (const path of [`${fileOf(id)}.tmp`, fileOf(id)]) rmSync(path, { force: true });
    },
    reserve(address, id) {
      const link = () => symlinkSync(formatId(id), join(addresses, address));
      try {
        writeOrMakeFolders(link, makeFolders);
        return true;
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
        return ownerOf(address) === formatId(id);
      }
    },
    reserved: () => new Map(names(addresses).map((address) => [address, ownerOf(address) ?? ""])),
    reservedAddresses: () => new Set(names(addresses)),
    release(address, id) {
      if (ownerOf(address) === formatId(id)) rmSync(join(addresses, address), { force: true });
    },
    lastAddresses() {
      const value = parseJson(ifPresent(() => readFileSync(lastAddresses, "utf8")) ?? "");
      return isTextList(value) ? value : [];
    },
    // Not replaced as a whole: one that is torn costs no more than the order of the addresses.
    writeLastAddresses: (last) => writeFileSync(lastAddresses, JSON.stringify(last), { mode: 0o600 }),
  };
}

/** Most calls find the folders. */
function writeOrMakeFolders(write: () => void, makeFolders: () => void): void {
  try {
    write();
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    makeFolders();
    write();
  }
}

/** Records are replaced as a whole, so one that cannot be read comes from another program; its attachment is removed by its names. */
function readAttachment(path: string): (AttachmentRecord & { readonly cacheDir?: unknown }) | undefined {
  const text = ifPresent(() => readFileSync(path, "utf8"));
  if (text === undefined) return undefined;
  const value: unknown = parseJson(text);
  return isAttachment(value) ? value : undefined;
}

/** Throws if the record has been removed since it was listed. */
function readOrigin(path: string): AttachmentOrigin | undefined {
  const { mtimeMs: writtenAt } = statSync(path);
  const attachment = readAttachment(path);
  if (attachment === undefined) return undefined;
  const { containerId, ifName, cacheDir } = attachment;
  return { containerId, ifName, cacheDir: typeof cacheDir === "string" ? cacheDir : undefined, writtenAt };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller looks at what it has got.
    return undefined;
  }
}

const isAttachment = (value: unknown): value is AttachmentRecord =>
  isObject(value) &&
  typeof value["containerId"] === "string" &&
  typeof value["ifName"] === "string" &&
  isTextList(value["addresses"]) &&
  isTextList(value["gateways"]) &&
  Array.isArray(value["hostPorts"]) &&
  (value["bridgeName"] === undefined || typeof value["bridgeName"] === "string");

const isTextList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");
