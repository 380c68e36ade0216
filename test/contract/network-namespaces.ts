import { dlopen, FFIType } from "bun:ffi";
import { writeFileSync } from "node:fs";
import { createNetlink } from "../../host/netlink/netlink.ts";

/** A network namespace that no process is in. It ends when the last descriptor or link of it is gone. */
export interface TestNamespace {
  /** For this process and its children. */
  readonly path: string;
  /** Calls synchronous `work` in the namespace. What it opens stays there. */
  run<T>(work: () => T): T;
  close(): void;
}

const CLONE_NEWNET = 0x40000000;
const OWN_NAMESPACE = "/proc/thread-self/ns/net";

/** Makes namespaces in which tests do what they must not do to the machine's own network. Only root may. */
export function createTestNamespaces(): { create(): TestNamespace; closeAll(): void } {
  const { symbols } = dlopen("libc.so.6", { unshare: { args: [FFIType.i32], returns: FFIType.i32 } });
  const netlink = createNetlink();
  const open = new Set<TestNamespace>();
  /** Leaves the thread's own namespace for a new one, from which `runIn` returns. */
  const openNew = () => {
    const own = netlink.openNamespace(OWN_NAMESPACE);
    try {
      return netlink.runIn(own, () => {
        if (symbols.unshare(CLONE_NEWNET) !== 0) throw new Error("cannot make a network namespace");
        return netlink.openNamespace(OWN_NAMESPACE);
      });
    } finally {
      own.close();
    }
  };
  return {
    create() {
      const opened = openNew();
      const namespace: TestNamespace = {
        path: `/proc/${process.pid}/fd/${opened.descriptor}`,
        run: (work) => netlink.runIn(opened, work),
        close() {
          if (open.delete(namespace)) opened.close();
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
