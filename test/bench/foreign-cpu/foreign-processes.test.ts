import { expect, test } from "bun:test";
import { createForeignProcesses } from "./foreign-processes.ts";
import { type ProcessStat, processStatIn } from "./process-table.ts";

const MARKER = "RUN=1";
type Row = Partial<Omit<ProcessStat, "pid">> & { readonly marked?: boolean };

/** A machine whose processes change from one look at it to the next. */
function watchOf(...looks: readonly Readonly<Record<number, Row>>[]) {
  const rest = [...looks];
  let now: Readonly<Record<number, Row>> = {};
  const statOf = (pid: number): ProcessStat | undefined => {
    const row = now[pid];
    const usual = {
      parent: pid === 1 ? 0 : 1,
      name: "sh",
      startTicks: pid,
      isKernelThread: false,
      isZombie: false,
      ownMs: 0,
      childrenMs: 0,
    };
    return row && { pid, ...usual, ...row };
  };
  const foreign = createForeignProcesses({
    root: 10,
    marker: MARKER,
    table: {
      pids: () => Object.keys(now).map(Number),
      stat: statOf,
      hasVariable: (pid, variable) => variable === MARKER && now[pid]?.marked === true,
    },
  });
  return looks.map(() => {
    now = rest.shift() ?? {};
    return foreign.next();
  });
}

const bench = { 1: { name: "init" }, 10: { name: "bench", parent: 5 } } as const;

test("a shim that has ended before it was seen, and init has not waited for, is not counted; another process of this kind is", () => {
  const ended = { isZombie: true, ownMs: 60, childrenMs: 200 };
  const used = watchOf(bench, {
    ...bench,
    20: { name: "make" },
    30: { name: "containerd-shim", ...ended },
    31: { parent: 20, name: "cc1", ...ended },
  });
  expect(used).toEqual([{}, { cc1: 260 }]);
});

test("what other processes use counts from the first look on, by their names", () => {
  const used = watchOf(
    { ...bench, 20: { ownMs: 900 }, 21: { name: "cc1", ownMs: 50 } },
    { ...bench, 20: { ownMs: 950 }, 21: { name: "cc1", ownMs: 80 }, 22: { name: "cc1", ownMs: 70 } },
  );
  expect(used).toEqual([{}, { sh: 50, cc1: 100 }]);
});

test("the benchmark's descendants are its own, as are shims with the marker and their pods, and threads of the kernel count for neither", () => {
  const [, used] = watchOf(bench, {
    ...bench,
    30: { parent: 10, name: "containerd", ownMs: 100 },
    31: { parent: 30, name: "runc", ownMs: 100 },
    33: { parent: 32, name: "httpd", ownMs: 100 },
    32: { name: "containerd-shim", marked: true, ownMs: 100 },
    40: { name: "kworker", isKernelThread: true, ownMs: 100 },
  });
  expect(used).toEqual({});
});

test("a process that is known as an own one stays so when its parent has ended, but a later one with its pid need not be", () => {
  const own = { parent: 10, name: "kubelet" };
  const used = watchOf({ ...bench, 30: own }, { ...bench, 30: { ...own, parent: 1, ownMs: 500 } }, bench, {
    ...bench,
    30: { startTicks: 99, ownMs: 40 },
  });
  expect(used).toEqual([{}, {}, {}, { sh: 40 }]);
});

test("a process with the pid of an own one that has ended between two looks is foreign", () => {
  const used = watchOf(
    { ...bench, 30: { parent: 10, name: "runc" }, 31: { parent: 30, name: "httpd" } },
    { ...bench, 30: { startTicks: 99, name: "cc1", ownMs: 40 }, 31: { parent: 30, name: "httpd", ownMs: 70 } },
  );
  expect(used).toEqual([{}, { cc1: 40 }]);
});

test("of a process with the pid of an earlier parent of own ones, children count", () => {
  const shim = { parent: 7, name: "containerd-shim", marked: true };
  const used = watchOf(
    { ...bench, 7: { name: "systemd" }, 50: shim },
    { ...bench, 7: { startTicks: 99, name: "make" } },
    { ...bench, 7: { startTicks: 99, name: "make", childrenMs: 300 } },
  );
  expect(used).toEqual([{}, {}, { make: 300 }]);
});

test("a child that has ended between two looks shows in its parent's time, without what was counted of it before", () => {
  const make = (childrenMs: number) => ({ name: "make", childrenMs });
  const used = watchOf(
    { ...bench, 20: make(0) },
    { ...bench, 20: make(300), 21: { parent: 20, name: "cc1", ownMs: 100 }, 22: { parent: 21, name: "as", ownMs: 20 } },
    { ...bench, 20: make(300 + 180) },
  );
  expect(used).toEqual([{}, { make: 300, cc1: 100, as: 20 }, { make: 60 }]);
});

test("of init, which waits for the benchmark's shims, only its own time counts, and of another parent of them too", () => {
  const shim = { parent: 7, name: "containerd-shim", marked: true };
  const used = watchOf(
    { ...bench, 7: { name: "systemd" }, 50: shim },
    { ...bench, 1: { name: "init", ownMs: 10, childrenMs: 800 }, 7: { name: "systemd", ownMs: 10, childrenMs: 800 } },
  );
  expect(used).toEqual([{}, { init: 10, systemd: 10 }]);
});

test("a line of /proc/PID/stat has the parent, the times and the flags, whatever the process's name is", () => {
  const fields = ["S", 7, 41, 41, 0, -1, 0x20_0040, 0, 0, 0, 0, 3, 4, 50, 60, 20, 0, 1, 0, 12_345, 0].join(" ");
  expect(processStatIn(`41 (a b) (c) ${fields}`)).toEqual({
    ...{ pid: 41, parent: 7, name: "a b) (c", startTicks: 12_345, isKernelThread: true, isZombie: false },
    ...{ ownMs: 70, childrenMs: 1_100 },
  });
});
