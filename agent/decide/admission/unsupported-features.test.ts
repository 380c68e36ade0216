import { expect, test } from "bun:test";
import type { PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { forbiddenSysctlRejection } from "./unsupported-features.ts";

const allowed = ["net.core.somaxconn", "kernel/msg*", "fs.mqueue.*"];
const rows: readonly [sysctl: string, spec: Partial<PodSpec>, why: string | undefined][] = [
  ["net.ipv4.tcp_syncookies", {}, undefined],
  ["net/ipv4/tcp_syncookies", {}, undefined],
  ["net.core.somaxconn", {}, undefined],
  ["net/core/somaxconn", {}, undefined],
  ["net.core.somaxconn", { hostIPC: true }, undefined],
  ["kernel.msgmax", {}, undefined],
  ["kernel.msgmax", { hostNetwork: true }, undefined],
  ["fs.mqueue.msg_max", {}, undefined],
  ["net.core.somaxconn2", {}, '"net.core.somaxconn2" not allowlisted'],
  ["net.core.rmem_max", {}, '"net.core.rmem_max" not allowlisted'],
  ["kernel/sem", {}, '"kernel.sem" not allowlisted'],
  ["net/core/somaxconn", { hostNetwork: true }, '"net.core.somaxconn" not allowed with host Net enabled'],
  ["net.ipv4.tcp_rmem", { hostNetwork: true }, '"net.ipv4.tcp_rmem" not allowed with host Net enabled'],
  ["kernel.msgmax", { hostIPC: true }, '"kernel.msgmax" not allowed with host IPC enabled'],
  ["kernel.shm_rmid_forced", { hostIPC: true }, '"kernel.shm_rmid_forced" not allowed with host IPC enabled'],
  ["net.core.rmem_max", { hostNetwork: true }, '"net.core.rmem_max" not allowlisted'],
];
for (const [name, spec, why] of rows)
  test(`${name} ${JSON.stringify(spec)} is ${why === undefined ? "allowed" : "forbidden"}`, () => {
    const pod = {
      metadata: { name: "web" },
      spec: { containers: [], ...spec, securityContext: { sysctls: [{ name, value: "1" }] } },
    };
    expect(forbiddenSysctlRejection(pod, allowed)).toEqual(
      why === undefined ? undefined : { reason: "SysctlForbidden", message: `forbidden sysctl: ${why}` },
    );
  });
