import { expect, test } from "bun:test";
import { dottedSysctl } from "./sysctl.ts";

const names: readonly [written: string, dotted: string][] = [
  ["kernel.shm_rmid_forced", "kernel.shm_rmid_forced"],
  ["kernel/shm_rmid_forced", "kernel.shm_rmid_forced"],
  ["net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"],
  ["net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"],
  ["none", "none"],
  ["", ""],
];
for (const [written, dotted] of names)
  test(`the sysctl ${JSON.stringify(written)} is ${JSON.stringify(dotted)}`, () => {
    expect(dottedSysctl(written)).toBe(dotted);
  });
