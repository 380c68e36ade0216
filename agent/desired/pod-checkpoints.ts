import type { Files } from "../../host/fs/files.ts";
import { isUnusableFile } from "../../host/fs/unusable-file.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { decodePodRecord, encodePodRecord, PodRecordError } from "./pod-checkpoint-codec.ts";

/**
 * The checkpoints of the accepted pods: one file per pod, written when the pod is accepted, changes, is no longer held
 * back by an earlier pod, or must terminate. With them a new agent honours the rest of a grace period, keeps
 * `startTime`, and runs the last good version of a manifest that was broken since.
 */
export interface PodCheckpoints {
  /** All readable checkpoints, oldest first. Unreadable ones are renamed and logged. */
  load(): Promise<readonly DesiredPod[]>;
  save(pod: DesiredPod): Promise<void>;
  remove(uid: PodUid): Promise<void>;
}

const FOLDER = "berth/pods";
const MAX_BYTES = 8 << 20;
const SUFFIX = ".json";

/** `root` is the agent's root directory. */
export function createPodCheckpoints(root: Files, log: Log): PodCheckpoints {
  async function read(name: string): Promise<readonly DesiredPod[]> {
    const path = `${FOLDER}/${name}`;
    try {
      return [await decodePodRecord(await root.read(path, MAX_BYTES))];
    } catch (error) {
      if (!isUnrecoverable(error)) throw error;
      const asidePath = `${path}.unreadable`;
      log.error(
        { err: error, file: root.path(path), aside: root.path(asidePath) },
        "a pod checkpoint is unreadable and was set aside",
      );
      await root.rename(path, asidePath);
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
      const checkpoints = await Promise.all(
        entries.filter(({ name }) => name.endsWith(SUFFIX)).map(({ name }) => read(name)),
      );
      return checkpoints.flat().toSorted(byAcceptance);
    },
    save: async (pod) => root.write(`${FOLDER}/${await fileOf(pod.uid)}`, encodePodRecord(pod), 0o600),
    remove: async (uid) => root.remove(`${FOLDER}/${await fileOf(uid)}`),
  };
}

/** The oldest first. Of two pods of one millisecond the terminating one is older: the other one may wait for its end. */
function byAcceptance(a: DesiredPod, b: DesiredPod): number {
  return a.acceptedAt - b.acceptedAt || Number(a.termination === undefined) - Number(b.termination === undefined);
}

/**
 * A uid is normally hexadecimal or a UUID. For any other uid, from a manifest, a digest names the file; only digests
 * contain `_`.
 */
async function fileOf(uid: PodUid): Promise<string> {
  if (/^[A-Za-z0-9-]{1,128}$/.test(uid)) return `${uid}${SUFFIX}`;
  const { createHash } = await import("node:crypto");
  return `sha256_${createHash("sha256").update(uid).digest("hex")}${SUFFIX}`;
}

/** Whether a retry would fail again. A transient disk error must not set a good checkpoint aside. */
function isUnrecoverable(error: unknown): boolean {
  return error instanceof PodRecordError || isUnusableFile(error);
}
