import { expect, test } from "bun:test";
import type { Container, Pod, Probe } from "../../proto/kubernetes/gen/types.ts";
import { enquiryOf } from "./probe-request.ts";

const container: Container = {
  name: "a",
  ports: [{ name: "web", containerPort: 8080 }],
  env: [
    { name: "FILE", value: "/tmp/ok" },
    { name: "NO_VALUE" },
    { name: "OF_FIELD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
  ],
};
const pod: Pod = { metadata: {}, spec: { containers: [container] } };
const scene = { pod, container, podIP: "10.0.0.2", userAgent: "kube-probe/1.36" };
const standard = [
  ["User-Agent", "kube-probe/1.36"],
  ["Accept", "*/*"],
] as const;

const rows: readonly [sentence: string, handler: Probe, call: object, podIP?: string][] = [
  [
    "a command, with the variables that are written down; the others are empty, and what is none stays",
    { exec: { command: ["cat", "$(FILE)", "$(OF_FIELD)$(NO_VALUE)", "$(NONE)"] } },
    {
      kind: "exec",
      argv: ["cat", "/tmp/ok", "", "$(NONE)"],
      written: ["cat", "$(FILE)", "$(OF_FIELD)$(NO_VALUE)", "$(NONE)"],
    },
  ],
  [
    "the pod's address, a port by its name",
    { httpGet: { port: "web" } },
    { kind: "httpGet", url: "http://10.0.0.2:8080/", headers: standard },
  ],
  [
    "another host, scheme and path, as they are",
    { httpGet: { host: "example.com", scheme: "HTTPS", port: 443, path: "/a//b/../c?d=e" } },
    { url: "https://example.com:443/a//b/../c?d=e" },
  ],
  ["a path without its slash", { httpGet: { port: 80, path: "ok" } }, { url: "http://10.0.0.2:80/ok" }],
  ["an address of IPv6", { httpGet: { port: 80 } }, { url: "http://[2001:db8::2]:80/" }, "2001:db8::2"],
  ["a literal address in its brackets", { httpGet: { host: "[::1]", port: 80 } }, { url: "http://[::1]:80/" }],
  ["a socket at such an address", { tcpSocket: { host: "[::1]", port: 80 } }, { host: "::1" }],
  [
    "headers of the spec win, and may be given twice",
    {
      httpGet: {
        port: 80,
        httpHeaders: [
          { name: "user-agent", value: "me" },
          { name: "X", value: "1" },
          { name: "X", value: "2" },
        ],
      },
    },
    {
      headers: [
        ["Accept", "*/*"],
        ["user-agent", "me"],
        ["X", "1"],
        ["X", "2"],
      ],
    },
  ],
  [
    "without the standard headers that the spec has empty; another one that is empty is sent",
    {
      httpGet: {
        port: 80,
        httpHeaders: [
          { name: "user-agent", value: "" },
          { name: "Accept", value: "" },
          { name: "X", value: "" },
        ],
      },
    },
    { headers: [["X", ""]] },
  ],
  ["a socket", { tcpSocket: { port: 5432 } }, { kind: "tcpSocket", host: "10.0.0.2", port: 5432 }],
  ["a port as text", { tcpSocket: { port: "5432", host: "db" } }, { host: "db", port: 5432 }],
  [
    "a service of gRPC",
    { grpc: { port: 9000, service: "shop" } },
    { kind: "grpc", host: "10.0.0.2", port: 9000, service: "shop" },
  ],
  ["a server of gRPC as a whole", { grpc: { port: 9000 } }, { service: "" }],
];
for (const [sentence, handler, call, podIP = "10.0.0.2"] of rows)
  test(sentence, () => {
    expect(enquiryOf(handler, { ...scene, podIP })).toMatchObject(call);
  });

test("the command of a hook is taken as it is written", () => {
  const hook = { exec: { command: ["cat", "$(FILE)"] } };
  expect(enquiryOf(hook, { ...scene, isHook: true })).toEqual({
    kind: "exec",
    argv: ["cat", "$(FILE)"],
    written: ["cat", "$(FILE)"],
  });
});

const refused: readonly [sentence: string, handler: Probe, podIP: string | undefined, message: string][] = [
  ["a port that has no such name", { tcpSocket: { port: "db" } }, "10.0.0.2", 'container a has no port "db"'],
  ["a number that is no port", { tcpSocket: { port: 70_000 } }, "10.0.0.2", "container a has no port 70000"],
  ["a pod without an address", { tcpSocket: { port: 80 } }, undefined, "the pod has no address yet"],
  ["nothing to be asked", {}, "10.0.0.2", "missing probe handler for a"],
];
for (const [sentence, handler, podIP, message] of refused)
  test(`refused: ${sentence}`, () => {
    expect(() => enquiryOf(handler, { ...scene, podIP })).toThrow(message);
  });
