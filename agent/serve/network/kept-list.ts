import { dirname } from "node:path/posix";
import { type BuiltinListUse, builtinListOf, formatBuiltinList } from "../../../cni/delegate/builtin-list.ts";
import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";

export interface KeptListOptions {
  /** Rooted at `/`. */
  readonly files: Pick<Files, "read" | "stat" | "write" | "makeFolder">;
  /** The agent's socket for the delegate. */
  readonly socket: string;
  readonly use: BuiltinListUse;
  /** The pod CIDRs of a standalone node; undefined on a node of a cluster, which waits for those of its Node object. */
  readonly standaloneCIDRs: readonly string[] | undefined;
  readonly log: Pick<Log, "info" | "error">;
}

/** The list of the built-in network that the agent keeps on the disk, so that a delegate without the agent executes the same network. */
export interface KeptList {
  /** Why there is no list; undefined if there is one. */
  problem(): string | undefined;
  /** Repeats a write that has failed. */
  retry(): Promise<void>;
  /** The pod CIDRs of the Node object, which has none at first. */
  setPodCIDRs(podCIDRs: readonly string[]): void;
  /** Resolves when no write is under way. */
  settled(): Promise<void>;
}

const NO_CIDR = "--network=builtin: the Node object has no pod CIDR yet, which gives pods their addresses";
const LIST_NOT_WRITTEN =
  "cannot write the list of the built-in network; the agent tries again when it next asks whether the network is ready";
const MAX_FILE_BYTES = 1 << 16;

/**
 * Makes the folder; on a standalone node also the list. The list of an earlier start stays until the Node object is known. Rejects with
 * `FilesError`, but not with the use `asFallback`: the list is a problem only while `--chain-dir` has no configuration.
 */
export async function openKeptList(options: KeptListOptions): Promise<KeptList> {
  const { files, socket, use, standaloneCIDRs, log } = options;
  const path = builtinListOf(socket, use);
  let podCIDRs = standaloneCIDRs ?? [];
  let hasList = false;

  async function prepareFolder(): Promise<void> {
    await files.makeFolder(dirname(path), 0o755);
    hasList = (await files.stat(path)) !== undefined;
  }

  async function write(): Promise<void> {
    await prepareFolder();
    const text = formatBuiltinList(podCIDRs);
    if (hasList && (await files.read(path, MAX_FILE_BYTES)) === text) return;
    await files.write(path, text, 0o644);
    hasList = true;
    if (use === "insteadOfChain") log.info({ podCIDRs }, "the built-in network has its addresses");
  }

  let failure: string | undefined;
  const worker = createCoalescingWorker(async () => {
    const earlier = failure;
    try {
      await write();
      failure = undefined;
    } catch (err) {
      failure = `the list of the built-in network cannot be written: ${messageOf(err)}`;
      if (failure !== earlier) log.error({ path, err }, LIST_NOT_WRITTEN);
    }
  });
  async function tryWrite(): Promise<void> {
    worker.wake();
    await worker.settled();
  }

  if (use === "asFallback") await tryWrite();
  else await (standaloneCIDRs === undefined ? prepareFolder() : write());
  return {
    problem: () => (hasList ? undefined : (failure ?? NO_CIDR)),
    async retry() {
      if (failure !== undefined) await tryWrite();
    },
    setPodCIDRs(changed) {
      const isDone = failure === undefined && Bun.deepEquals(changed, podCIDRs);
      if (standaloneCIDRs !== undefined || changed.length === 0 || isDone) return;
      podCIDRs = changed;
      worker.wake();
    },
    settled: worker.settled,
  };
}
