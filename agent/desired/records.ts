import { crc32 } from "node:zlib";
import { type Files, FilesError } from "../../host/files.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { DesiredPod } from "../decide/desired.ts";

/**
 * The durable record of the pods that this node has taken: one file a pod, written when it is taken, when it has to end, and
 * never else. It lets a new agent grant the rest of a grace period, keep `startTime`, and run the last good version of a
 * manifest that was broken since.
 */
export interface PodRecords {
  /** All that can be read, oldest first. What cannot is set aside under another name, and said. */
  load(): Promise<readonly DesiredPod[]>;
  save(pod: DesiredPod): Promise<void>;
  remove(uid: PodUid): Promise<void>;
}

const FOLDER = "berth/pods";
const VERSION = 1;
/** Names of what is no plain uid: a file name of their own, and nothing else. */
const UNUSUAL = "uid-";
const MOST_BYTES = 8 << 20;
const SUFFIX = ".json";

/** `root` is the agent's root directory. */
export function createPodRecords(root: Files, log: Log): PodRecords {
  async function read(name: string): Promise<readonly DesiredPod[]> {
    const path = `${FOLDER}/${name}`;
    try {
      return [decodeRecord(await root.read(path, MOST_BYTES))];
    } catch (error) {
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
    save: (pod) => root.write(`${FOLDER}/${fileOf(pod.uid)}`, encodeRecord(pod), 0o600),
    remove: (uid) => root.remove(`${FOLDER}/${fileOf(uid)}`),
  };
}

/** A uid is hexadecimal or a UUID; anything else is encoded, so that it can only ever be one file name. */
function fileOf(uid: PodUid): string {
  const isPlain = /^[A-Za-z0-9-]{1,128}$/.test(uid);
  return `${isPlain ? uid : UNUSUAL + encodeURIComponent(uid).replaceAll(".", "%2E").slice(0, 200)}${SUFFIX}`;
}

export function encodeRecord(pod: DesiredPod): string {
  const record = JSON.stringify(pod);
  return `{"version":${VERSION},"crc32":${checksumOf(record)},"record":${record}}\n`;
}

/** Throws `FilesError` with what is wrong: torn, changed by hand, or written by a newer release. */
export function decodeRecord(text: string): DesiredPod {
  const broken = (why: string) => new FilesError("EBADRECORD", "", `the record ${why}`);
  const head = /^\{"version":(\d+),"crc32":(\d+),"record":/.exec(text);
  if (head === null) throw broken("does not begin as one");
  const [whole, version, sum] = head;
  if (Number(version) !== VERSION) throw broken(`has version ${version}; this release knows version ${VERSION}`);
  const record = text.slice(whole.length, -2);
  if (!text.endsWith("}\n") || checksumOf(record) !== Number(sum))
    throw broken("is torn or was changed: its checksum does not fit");
  return JSON.parse(record) as DesiredPod;
}

/** CRC-32: against torn writes and worn cards, not against people; who may write here is root already. */
function checksumOf(text: string): number {
  return crc32(text);
}
