import { expect, test } from "bun:test";
import { NamespaceMode } from "../../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { sandboxConfig } from "../sandbox-config.ts";
import { mountsOf } from "../volumes/mounts.ts";
import { containerSecurityContext, namespacesWith } from "./security-context.ts";
import { checkOwnUsers, formatUserNamespace, parseUserNamespace } from "./user-namespace.ts";

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

test("a record is the kubelet's own", () => {
  expect(formatUserNamespace(ids)).toBe(written);
  expect(parseUserNamespace(written)).toEqual(ids);
});

const one = (more: object) =>
  JSON.stringify({ uidMappings: [{ ...mapping, ...more }], gidMappings: [{ ...mapping, ...more }] });
const torn: readonly [title: string, text: string][] = [
  ["an empty one", ""],
  ["half of one", written.slice(0, 40)],
  ["a list", "[]"],
  ["nothing", "null"],
  ["no groups", JSON.stringify({ uidMappings: [mapping] })],
  [
    "other groups than users",
    JSON.stringify({ uidMappings: [mapping], gidMappings: [{ ...mapping, hostId: 65_536 }] }),
  ],
  ["two ranges", JSON.stringify({ uidMappings: [mapping, mapping], gidMappings: [mapping, mapping] })],
  ["a mapping that is none", JSON.stringify({ uidMappings: [null], gidMappings: [null] })],
  ["one without root", one({ containerId: 1 })],
  ["the node's own root", one({ hostId: 0 })],
  ["ids beyond the last one", one({ hostId: 4_294_901_760, length: 65_537 })],
  ["half an id", one({ length: 0.5 })],
];
for (const [title, text] of torn)
  test(`a record of ${title} says nothing`, () => expect(parseUserNamespace(text)).toBeUndefined());

test("a pod with users of its own tells the runtime its ids: its sandbox, its containers and each of their mounts", () => {
  const pod = podOf(false);
  const own = { mode: NamespaceMode.POD, uids: [mapping], gids: [mapping] };
  const sandbox = sandboxConfig(pod, { attempt: 0, crashes: 0 }, nodeFacts, ids);
  expect(sandbox.linux?.securityContext?.namespaceOptions?.usernsOptions).toEqual(own);
  const context = containerSecurityContext(pod, container, { uid: undefined, username: "" }, nodeFacts, ids);
  expect(context.namespaceOptions?.usernsOptions).toEqual(own);
  expect(namespacesWith(pod, "1" as ContainerId, ids).usernsOptions).toEqual(own);
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

test("another one has the node's users, and says so; nothing is mapped", () => {
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

const lacks = "can't set `spec.hostUsers: false`, ";
const handlers: readonly [
  title: string,
  handler: string,
  told: ReadonlyMap<string, boolean>,
  says: string | undefined,
][] = [
  ["one that can", "", new Map([["", true]]), undefined],
  ["one that cannot", "", new Map([["", false]]), `${lacks}runtime does not support user namespaces`],
  ["one too old to tell", "", new Map(), `${lacks}runtime does not support user namespaces`],
  [
    "a handler that cannot beside one that can",
    "kata",
    new Map([
      ["", true],
      ["kata", false],
    ]),
    `${lacks}RuntimeClass handler "kata" does not support user namespaces`,
  ],
  [
    "a handler that it does not have",
    "kata",
    new Map([["", true]]),
    `${lacks}RuntimeClass handler "kata" does not support user namespaces: the handler "kata" is not known`,
  ],
];
for (const [title, handler, told, says] of handlers)
  test(`the runtime is ${title}`, () => {
    const check = () => checkOwnUsers(handler, told);
    if (says === undefined) expect(check).not.toThrow();
    else expect(check).toThrow(says);
  });
