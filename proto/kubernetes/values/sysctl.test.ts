import { expect, test } from "bun:test";
import { normalizeSysctl, parseSysctlPattern } from "./sysctl.ts";

const names: readonly [written: string, dotted: string][] = [
  ["kernel.shm_rmid_forced", "kernel.shm_rmid_forced"],
  ["kernel/shm_rmid_forced", "kernel.shm_rmid_forced"],
  ["net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"],
  ["net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"],
  ["none", "none"],
  ["", ""],
];
for (const [written, dotted] of names)
  test(`normalizeSysctl converts ${JSON.stringify(written)} to ${JSON.stringify(dotted)}`, () => {
    expect(normalizeSysctl(written)).toBe(dotted);
  });

const patterns: readonly [text: string, meaning: string | undefined][] = [
  ["net.core.somaxconn", "Net net.core.somaxconn"],
  ["net/core/somaxconn", "Net net.core.somaxconn"],
  ["net.*", "Net net. and more"],
  ["net/ipv4/*", "Net net.ipv4. and more"],
  ["net.core.r*", "Net net.core.r and more"],
  ["kernel.sem", "IPC kernel.sem"],
  ["kernel.shm*", "IPC kernel.shm and more"],
  ["kernel/msg*", "IPC kernel.msg and more"],
  ["kernel.msgmax", "IPC kernel.msgmax"],
  ["kernel.msgmax*", "IPC kernel.msgmax and more"],
  ["kernel.shm_rmid_forced", "IPC kernel.shm_rmid_forced"],
  ["fs.mqueue.*", "IPC fs.mqueue. and more"],
  ["kernel.shm_*", undefined],
  ["kernel.msgfoo", undefined],
  ["kernel.pid_max", undefined],
  ["kernel.*", undefined],
  ["vm.swappiness", undefined],
  ["fs.file-max", undefined],
  ["net", undefined],
  ["net*", undefined],
  ["net.*.x", undefined],
  ["net.**", undefined],
  ["net.core-*", "Net net.core- and more"],
  ["net.core-", undefined],
  ["NET.core", undefined],
  ["*", undefined],
  ["", undefined],
  [`net.${"a".repeat(249)}`, `Net net.${"a".repeat(249)}`],
  [`net.${"a".repeat(250)}`, undefined],
];
for (const [text, meaning] of patterns)
  test(`the pattern ${JSON.stringify(text).slice(0, 40)} means ${meaning?.slice(0, 40) ?? "no namespaced sysctl"}`, () => {
    const { name, isPrefix, namespace } = parseSysctlPattern(text) ?? {};
    expect(name && `${namespace} ${name}${isPrefix ? " and more" : ""}`).toBe(meaning);
  });
