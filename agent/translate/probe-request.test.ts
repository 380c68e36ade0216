import { expect, test } from "bun:test";
import type { Container, Pod, Probe } from "../../proto/kubernetes/gen/types.ts";
import { toProbeRequest } from "./probe-request.ts";

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
const input = { pod, container, podIP: "10.0.0.2", userAgent: "kube-probe/1.36" };
const defaultHeaders = [
  ["User-Agent", "kube-probe/1.36"],
  ["Accept", "*/*"],
] as const;

const rows: readonly [sentence: string, handler: Probe, call: object, podIP?: string][] = [
  [
    "a command expands literal variables, empties valueFrom variables and keeps unknown references",
    { exec: { command: ["cat", "$(FILE)", "$(OF_FIELD)$(NO_VALUE)", "$(NONE)"] } },
    {
      kind: "exec",
      argv: ["cat", "/tmp/ok", "", "$(NONE)"],
      specCommand: ["cat", "$(FILE)", "$(OF_FIELD)$(NO_VALUE)", "$(NONE)"],
    },
  ],
  [
    "httpGet uses the pod's address and resolves a named port",
    { httpGet: { port: "web" } },
    { kind: "httpGet", url: "http://10.0.0.2:8080/", headers: defaultHeaders },
  ],
  [
    "httpGet keeps another host, scheme and path",
    { httpGet: { host: "example.com", scheme: "HTTPS", port: 443, path: "/a//b/../c?d=e" } },
    { url: "https://example.com:443/a//b/../c?d=e" },
  ],
  [
    "httpGet completes a path without its slash",
    { httpGet: { port: 80, path: "ok" } },
    { url: "http://10.0.0.2:80/ok" },
  ],
  [
    "httpGet puts an IPv6 address in brackets",
    { httpGet: { port: 80 } },
    { url: "http://[2001:db8::2]:80/" },
    "2001:db8::2",
  ],
  ["httpGet accepts an IPv6 host in brackets", { httpGet: { host: "[::1]", port: 80 } }, { url: "http://[::1]:80/" }],
  ["tcpSocket removes the brackets of an IPv6 host", { tcpSocket: { host: "[::1]", port: 80 } }, { host: "::1" }],
  [
    "headers of the spec override the defaults and may repeat",
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
    "an empty default header is not sent, another empty header is",
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
  ["tcpSocket accepts a port number as text", { tcpSocket: { port: "5432", host: "db" } }, { host: "db", port: 5432 }],
  [
    "grpc names a service",
    { grpc: { port: 9000, service: "shop" } },
    { kind: "grpc", host: "10.0.0.2", port: 9000, service: "shop" },
  ],
  ["grpc without a service asks for the whole server", { grpc: { port: 9000 } }, { service: "" }],
];
for (const [sentence, handler, call, podIP = "10.0.0.2"] of rows)
  test(sentence, () => {
    expect(toProbeRequest(handler, { ...input, podIP })).toMatchObject(call);
  });

test("the command of a hook is not expanded", () => {
  const hook = { exec: { command: ["cat", "$(FILE)"] } };
  expect(toProbeRequest(hook, { ...input, isHook: true })).toEqual({
    kind: "exec",
    argv: ["cat", "$(FILE)"],
    specCommand: ["cat", "$(FILE)"],
  });
});

const rejected: readonly [sentence: string, handler: Probe, podIP: string | undefined, message: string][] = [
  ["an unknown port name", { tcpSocket: { port: "db" } }, "10.0.0.2", 'container a has no port "db"'],
  ["a port number out of range", { tcpSocket: { port: 70_000 } }, "10.0.0.2", "container a has no port 70000"],
  ["a pod without an address", { tcpSocket: { port: 80 } }, undefined, "the pod has no address yet"],
  ["a handler without an action", {}, "10.0.0.2", "missing probe handler for a"],
];
for (const [sentence, handler, podIP, message] of rejected)
  test(`toProbeRequest rejects ${sentence}`, () => {
    expect(() => toProbeRequest(handler, { ...input, podIP })).toThrow(message);
  });
