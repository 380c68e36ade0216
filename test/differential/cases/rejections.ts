import { hasEnded, NODE_NAME, type PodCase } from "./pod-case.ts";

/** Pods that are bound to their node without the scheduler and rejected there. */
export const rejectedCases: readonly PodCase[] = [
  {
    name: "out-of-memory-of-the-node",
    container: { resources: { requests: { memory: "1000Ti" } } },
    spec: { nodeName: NODE_NAME },
    until: hasEnded,
  },
  { name: "other-operating-system", spec: { nodeName: NODE_NAME, os: { name: "windows" } }, until: hasEnded },
  {
    name: "unsafe-sysctl",
    spec: { securityContext: { sysctls: [{ name: "kernel.msgmax", value: "65536" }] } },
    until: hasEnded,
  },
  {
    name: "apparmor-unsupported",
    container: { securityContext: { appArmorProfile: { type: "RuntimeDefault" } } },
    until: hasEnded,
  },
  {
    name: "out-of-cpu",
    container: { resources: { requests: { cpu: "1000" } } },
    spec: { nodeName: NODE_NAME },
    until: hasEnded,
  },
  { name: "no-such-disk", spec: { nodeName: NODE_NAME, nodeSelector: { disk: "none" } }, until: hasEnded },
];
