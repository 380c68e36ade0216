import { dlopen, FFIType } from "bun:ffi";
import { closeSync, readSync } from "node:fs";

/**
 * Whoever holds a file of a folder open for writing, as the kernel tells it: in order, without a look in between, and of those too that
 * are killed. Each instance of a container holds one of its own, so that no two can live at once unseen.
 */
export interface Holders {
  /** How many instances each owner has at this moment, where it has any. */
  now(): ReadonlyMap<string, number>;
  /** How often each owner has begun. */
  begun(): ReadonlyMap<string, number>;
  /** One sentence for each instance that began while another one of its owner lived. */
  twice(): readonly string[];
  stop(): void;
}

/** What stands between the owner and the instance in the name of a file. */
const SEPARATOR = "+";

/** The command of busybox' shell by which a container holds its file in `folder` for as long as one of its processes lives. */
export const holding = (folder: string, owner: string): string =>
  `read -r own < /proc/sys/kernel/random/uuid; exec 9> "${folder}/${owner}${SEPARATOR}$own"`;

/** One line of the kernel's story. */
interface Change {
  readonly file: string;
  readonly isOpen: boolean;
}

/** Tells of `folder`, which must be there, from now on. Its answers throw if the kernel has dropped a part of the story. */
export function watchHolders(folder: string): Holders {
  const { inotify, close } = followOpenings(folder);
  const changes: Change[] = [];
  const drain = () => {
    changes.push(...inotify());
    return changes;
  };
  // The kernel keeps some thousands of events for a reader that is late.
  const timer = setInterval(drain, 200);
  return {
    now: () => storyOf(drain()).now,
    begun: () => storyOf(drain()).begun,
    twice: () => storyOf(drain()).twice,
    stop() {
      clearInterval(timer);
      close();
    },
  };
}

/** What became of the owners, by the changes in their order. */
function storyOf(changes: readonly Change[]) {
  const lives = new Map<string, Set<string>>();
  const begun = new Map<string, number>();
  const twice: string[] = [];
  for (const { file, isOpen } of changes) {
    const [owner = ""] = file.split(SEPARATOR);
    const own = lives.get(owner) ?? new Set();
    lives.set(owner, own);
    if (isOpen) {
      begun.set(owner, (begun.get(owner) ?? 0) + 1);
      if (own.size > 0) twice.push(`${owner} began as ${file} while it lived as ${[...own].join(", ")}`);
      own.add(file);
    } else own.delete(file);
  }
  const now = new Map([...lives].map(([owner, { size }]) => [owner, size] as const).filter(([, size]) => size > 0));
  return { now, begun, twice };
}

const IN_CLOSE_WRITE = 0x8;
const IN_OPEN = 0x20;
const IN_Q_OVERFLOW = 0x4000;
const IN_CLOEXEC_NONBLOCK = 0o2004000;
/** `struct inotify_event` without its name: what is watched, the mask, a cookie, the length of the name. */
const HEAD_BYTES = 16;

/** A watch of inotify(7) with the events that Node does not tell. */
function followOpenings(folder: string) {
  const libc = dlopen("libc.so.6", {
    inotify_init1: { args: [FFIType.i32], returns: FFIType.i32 },
    inotify_add_watch: { args: [FFIType.i32, FFIType.cstring, FFIType.u32], returns: FFIType.i32 },
  });
  const descriptor = libc.symbols.inotify_init1(IN_CLOEXEC_NONBLOCK);
  const path = Buffer.from(`${folder}\0`);
  const watch = libc.symbols.inotify_add_watch(descriptor, path, IN_OPEN | IN_CLOSE_WRITE);
  libc.close();
  if (watch < 0) throw new Error(`${folder} cannot be watched`);
  const buffer = Buffer.alloc(64 * 1024);
  return {
    inotify: (): readonly Change[] => {
      const changes: Change[] = [];
      for (let bytes = readSome(descriptor, buffer); bytes > 0; bytes = readSome(descriptor, buffer))
        changes.push(...changesOf(buffer.subarray(0, bytes)));
      return changes;
    },
    close: () => closeSync(descriptor),
  };
}

function readSome(descriptor: number, buffer: Buffer): number {
  try {
    return readSync(descriptor, buffer);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return 0;
    throw error;
  }
}

function changesOf(bytes: Buffer): readonly Change[] {
  const changes: Change[] = [];
  for (let at = 0; at < bytes.length; ) {
    const mask = bytes.readUInt32LE(at + 4);
    const end = at + HEAD_BYTES + bytes.readUInt32LE(at + 12);
    if ((mask & IN_Q_OVERFLOW) !== 0) throw new Error("the kernel has dropped a part of the story");
    const file = bytes.toString("utf8", at + HEAD_BYTES, end).replace(/\0+$/, "");
    // The folder itself is opened by whoever lists it, and has no name here.
    if (file !== "") changes.push({ file, isOpen: (mask & IN_OPEN) !== 0 });
    at = end;
  }
  return changes;
}
