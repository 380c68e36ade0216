import { dlopen, FFIType } from "bun:ffi";
import { closeSync, readSync } from "node:fs";

/**
 * Tracks which processes have a file of a folder open for writing, by the kernel's ordered inotify events; those of
 * killed processes are included. Each container instance opens a file of its own, so that two instances that run at
 * once are always detected, without polling.
 */
export interface OpenFileWatch {
  /** The number of running instances of each owner, if it has any. */
  openCounts(): ReadonlyMap<string, number>;
  /** The number of starts of each owner. */
  startCounts(): ReadonlyMap<string, number>;
  /** One sentence for each instance that started while another one of its owner was running. */
  overlaps(): readonly string[];
  stop(): void;
}

/** Separates the owner from the instance in a file name. */
const SEPARATOR = "+";

/**
 * The busybox shell command that keeps a container's file in `folder` open for as long as one of its processes lives.
 */
export const holdOpenCommand = (folder: string, owner: string): string =>
  `read -r own < /proc/sys/kernel/random/uuid; exec 9> "${folder}/${owner}${SEPARATOR}$own"`;

/** One inotify event. */
interface OpenFileEvent {
  readonly file: string;
  readonly isOpen: boolean;
}

/** Watches `folder`, which must exist. The methods of the result throw if the kernel has dropped events. */
export function watchOpenFiles(folder: string): OpenFileWatch {
  const { inotify, close } = openInotify(folder);
  const events: OpenFileEvent[] = [];
  const drain = () => {
    events.push(...inotify());
    return events;
  };
  // The kernel's queue holds some thousands of events between two reads.
  const timer = setInterval(drain, 200);
  return {
    openCounts: () => replayEvents(drain()).now,
    startCounts: () => replayEvents(drain()).started,
    overlaps: () => replayEvents(drain()).twice,
    stop() {
      clearInterval(timer);
      close();
    },
  };
}

/** Replays the events in their order. */
function replayEvents(events: readonly OpenFileEvent[]) {
  const openFiles = new Map<string, Set<string>>();
  const started = new Map<string, number>();
  const twice: string[] = [];
  for (const { file, isOpen } of events) {
    const [owner = ""] = file.split(SEPARATOR);
    const openOfOwner = openFiles.get(owner) ?? new Set();
    openFiles.set(owner, openOfOwner);
    if (isOpen) {
      started.set(owner, (started.get(owner) ?? 0) + 1);
      if (openOfOwner.size > 0)
        twice.push(`${owner} started as ${file} while ${[...openOfOwner].join(", ")} was running`);
      openOfOwner.add(file);
    } else openOfOwner.delete(file);
  }
  const now = new Map([...openFiles].map(([owner, { size }]) => [owner, size] as const).filter(([, size]) => size > 0));
  return { now, started, twice };
}

const IN_CLOSE_WRITE = 0x8;
const IN_OPEN = 0x20;
const IN_Q_OVERFLOW = 0x4000;
const IN_CLOEXEC_NONBLOCK = 0o2004000;
/** The size of `struct inotify_event` without its name: watch descriptor, mask, cookie, length of the name. */
const HEADER_BYTES = 16;

/** An inotify(7) watch for IN_OPEN and IN_CLOSE_WRITE, which Node's fs.watch does not report. */
function openInotify(folder: string) {
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
    inotify: (): readonly OpenFileEvent[] => {
      const events: OpenFileEvent[] = [];
      for (let bytes = readSome(descriptor, buffer); bytes > 0; bytes = readSome(descriptor, buffer))
        events.push(...parseEvents(buffer.subarray(0, bytes)));
      return events;
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

function parseEvents(bytes: Buffer): readonly OpenFileEvent[] {
  const events: OpenFileEvent[] = [];
  for (let at = 0; at < bytes.length; ) {
    const mask = bytes.readUInt32LE(at + 4);
    const end = at + HEADER_BYTES + bytes.readUInt32LE(at + 12);
    if ((mask & IN_Q_OVERFLOW) !== 0) throw new Error("the kernel has dropped inotify events");
    const file = bytes.toString("utf8", at + HEADER_BYTES, end).replace(/\0+$/, "");
    // An event without a name is for the folder itself, which any process may open to list it.
    if (file !== "") events.push({ file, isOpen: (mask & IN_OPEN) !== 0 });
    at = end;
  }
  return events;
}
