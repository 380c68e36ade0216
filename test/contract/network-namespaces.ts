import { dlopen, FFIType } from "bun:ffi";
import { closeSync, openSync, writeFileSync } from "node:fs";

/** A network namespace that no process is in. It ends when the last descriptor or link of it is gone. */
export interface TestNamespace {
  /** For this process and its children. */
  readonly path: string;
  /** Calls synchronous `work` in the namespace. What it opens stays there. */
  run<T>(work: () => T): T;
  close(): void;
}

const CLONE_NEWNET = 0x40000000;

/** Makes namespaces in which tests do what they must not do to the machine's own network. Only root may. */
export function createTestNamespaces(): { create(): TestNamespace; closeAll(): void } {
  const { i32 } = FFIType;
  const { symbols } = dlopen("libc.so.6", {
    unshare: { args: [i32], returns: i32 },
    setns: { args: [i32, i32], returns: i32 },
  });
  const open = new Set<TestNamespace>();
  const away = <T>(enter: () => number, work: () => T): T => {
    const own = openSync("/proc/thread-self/ns/net", "r");
    try {
      if (enter() !== 0) throw new Error("cannot enter the network namespace");
      try {
        return work();
      } finally {
        if (symbols.setns(own, CLONE_NEWNET) !== 0) process.abort();
      }
    } finally {
      closeSync(own);
    }
  };
  return {
    create() {
      const descriptor = away(
        () => symbols.unshare(CLONE_NEWNET),
        () => openSync("/proc/thread-self/ns/net", "r"),
      );
      const namespace: TestNamespace = {
        path: `/proc/${process.pid}/fd/${descriptor}`,
        run: (work) => away(() => symbols.setns(descriptor, CLONE_NEWNET), work),
        close() {
          if (open.delete(namespace)) closeSync(descriptor);
        },
      };
      open.add(namespace);
      return namespace;
    },
    closeAll: () => {
      for (const namespace of open) namespace.close();
    },
  };
}

/** Writes a file below /proc/sys/net of the namespace in which the thread is. */
export const writeSysctl = (path: string, value: string): void => writeFileSync(`/proc/sys/net/${path}`, value);

/** The output of a program in a namespace, such as `ip -j addr`. */
export function outputIn(namespace: TestNamespace, ...argv: readonly string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync(["nsenter", `--net=${namespace.path}`, "--", ...argv]);
  if (exitCode !== 0) throw new Error(`${argv.join(" ")}: ${stderr.toString()}`);
  return stdout.toString();
}
