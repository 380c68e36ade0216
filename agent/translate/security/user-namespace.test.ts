import { expect, test } from "bun:test";
import { NamespaceMode } from "../../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { sandboxConfig } from "../sandbox-config.ts";
import { mountsOf } from "../volumes/mounts.ts";
import { containerSecurityContext, namespacesOfTarget } from "./security-context.ts";
import { checkUserNamespaceSupport, formatUserNamespace, parseUserNamespace } from "./user-namespace.ts";

const ids = { first: 131_072, length: 65_536 };
const mapping = { hostId: 131_072, containerId: 0, length: 65_536 };
const written = `{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`;

const container = { name: "a", image: "busybox:1", volumeMounts: [{ name: "v", mountPath: "/v" }] };
const podOf = (hostUsers?: boolean): Pod => ({
  metadata: { name: "web", namespace: "default", uid: "u-1" },
  spec: {
    containers: [container],
    volumes: [{ name: "v", emptyDir: {} }],
    ...(hostUsers !== undefined && { hostUsers }),
  },
});

test("formatUserNamespace writes the kubelet's format", () => {
  expect(formatUserNamespace(ids)).toBe(written);
  expect(parseUserNamespace(written)).toEqual(ids);
});

const fileWith = (more: object) =>
  JSON.stringify({ uidMappings: [{ ...mapping, ...more }], gidMappings: [{ ...mapping, ...more }] });
const tornFiles: readonly [title: string, text: string][] = [
  ["an empty file", ""],
  ["a torn file", written.slice(0, 40)],
  ["a list", "[]"],
  ["nothing", "null"],
  ["no groups", JSON.stringify({ uidMappings: [mapping] })],
  [
    "different groups and users",
    JSON.stringify({ uidMappings: [mapping], gidMappings: [{ ...mapping, hostId: 65_536 }] }),
  ],
  ["two ranges", JSON.stringify({ uidMappings: [mapping, mapping], gidMappings: [mapping, mapping] })],
  ["a null mapping", JSON.stringify({ uidMappings: [null], gidMappings: [null] })],
  ["a mapping without root", fileWith({ containerId: 1 })],
  ["a mapping to the node's root", fileWith({ hostId: 0 })],
  ["ids above 2^32", fileWith({ hostId: 4_294_901_760, length: 65_537 })],
  ["a fractional length", fileWith({ length: 0.5 })],
];
for (const [title, text] of tornFiles)
  test(`parseUserNamespace rejects ${title}`, () => expect(parseUserNamespace(text)).toBeUndefined());

test("sandbox, containers and mounts of a pod with hostUsers false carry its id range", () => {
  const pod = podOf(false);
  const own = { mode: NamespaceMode.POD, uids: [mapping], gids: [mapping] };
  const sandbox = sandboxConfig(pod, { attempt: 0, crashes: 0 }, nodeFacts, { ids });
  expect(sandbox.linux?.securityContext?.namespaceOptions?.usernsOptions).toEqual(own);
  const context = containerSecurityContext(pod, container, { uid: undefined, username: "" }, nodeFacts, ids);
  expect(context.namespaceOptions?.usernsOptions).toEqual(own);
  expect(namespacesOfTarget(pod, "1" as ContainerId, ids).usernsOptions).toEqual(own);
  const mounts = mountsOf(container, { pod, attempt: 0, podIPs: ["10.0.0.2"], facts: nodeFacts, ids });
  expect(
    mounts.map(({ containerPath, uidMappings, gidMappings }) => ({ containerPath, uidMappings, gidMappings })),
  ).toEqual(
    ["/v", "/etc/hosts", "/dev/termination-log"].map((containerPath) => ({
      containerPath,
      uidMappings: [mapping],
      gidMappings: [mapping],
    })),
  );
});

test("a pod with hostUsers true uses the node's user namespace explicitly and maps nothing", () => {
  for (const hostUsers of [undefined, true]) {
    const pod = podOf(hostUsers);
    const { linux } = sandboxConfig(pod, { attempt: 0, crashes: 0 }, nodeFacts);
    expect(linux?.securityContext?.namespaceOptions?.usernsOptions).toEqual({
      mode: NamespaceMode.NODE,
      uids: [],
      gids: [],
    });
    const mounts = mountsOf(container, { pod, attempt: 0, podIPs: [], facts: nodeFacts });
    expect(mounts.flatMap(({ uidMappings, gidMappings }) => [...uidMappings, ...gidMappings])).toEqual([]);
  }
});

const messageStart = "can't set `spec.hostUsers: false`, ";
const handlers: readonly [
  title: string,
  handler: string,
  reported: ReadonlyMap<string, boolean>,
  says: string | undefined,
][] = [
  ["accepts a handler with support", "", new Map([["", true]]), undefined],
  [
    "rejects a handler without support",
    "",
    new Map([["", false]]),
    `${messageStart}runtime does not support user namespaces`,
  ],
  [
    "rejects a runtime that does not report support",
    "",
    new Map(),
    `${messageStart}runtime does not support user namespaces`,
  ],
  [
    "rejects a handler without support beside one with support",
    "kata",
    new Map([
      ["", true],
      ["kata", false],
    ]),
    `${messageStart}RuntimeClass handler "kata" does not support user namespaces`,
  ],
  [
    "rejects an unknown handler",
    "kata",
    new Map([["", true]]),
    `${messageStart}RuntimeClass handler "kata" does not support user namespaces: the handler "kata" is not known`,
  ],
];
for (const [title, handler, support, expected] of handlers)
  test(`checkUserNamespaceSupport ${title}`, () => {
    const check = () => checkUserNamespaceSupport(handler, support);
    if (expected === undefined) expect(check).not.toThrow();
    else expect(check).toThrow(expected);
  });
