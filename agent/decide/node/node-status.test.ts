import { expect, test } from "bun:test";
import type { NodeAddress, NodeStatus } from "../../../proto/kubernetes/gen/types.ts";
import { nodeSettings, observedMachine, observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import type { NodeSettings } from "./node-settings.ts";
import { nodeStatus } from "./node-status.ts";
import { type ObservedNode, unknownRuntime } from "./observed-node.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const status = (observed: Partial<ObservedNode> = {}, settings: Partial<NodeSettings> = {}, before: NodeStatus = {}) =>
  nodeStatus({ ...observedNode, ...observed }, before, { ...nodeSettings, ...settings }, start);

test("a status has everything that is known of the node", () => {
  expect(status()).toMatchInlineSnapshot(`
    {
      "addresses": [
        {
          "address": "192.0.2.1",
          "type": "InternalIP",
        },
        {
          "address": "node-a",
          "type": "Hostname",
        },
      ],
      "allocatable": {
        "cpu": "4",
        "ephemeral-storage": "61847528960",
        "memory": "8092Mi",
        "pods": "110",
      },
      "capacity": {
        "cpu": "4",
        "ephemeral-storage": "64Gi",
        "memory": "8Gi",
        "pods": "110",
      },
      "conditions": [
        {
          "lastHeartbeatTime": "2026-01-01T00:00:00Z",
          "lastTransitionTime": "2026-01-01T00:00:00Z",
          "message": "kubelet has sufficient memory available",
          "reason": "KubeletHasSufficientMemory",
          "status": "False",
          "type": "MemoryPressure",
        },
        {
          "lastHeartbeatTime": "2026-01-01T00:00:00Z",
          "lastTransitionTime": "2026-01-01T00:00:00Z",
          "message": "kubelet has no disk pressure",
          "reason": "KubeletHasNoDiskPressure",
          "status": "False",
          "type": "DiskPressure",
        },
        {
          "lastHeartbeatTime": "2026-01-01T00:00:00Z",
          "lastTransitionTime": "2026-01-01T00:00:00Z",
          "message": "kubelet has sufficient PID available",
          "reason": "KubeletHasSufficientPID",
          "status": "False",
          "type": "PIDPressure",
        },
        {
          "lastHeartbeatTime": "2026-01-01T00:00:00Z",
          "lastTransitionTime": "2026-01-01T00:00:00Z",
          "message": "kubelet is posting ready status",
          "reason": "KubeletReady",
          "status": "True",
          "type": "Ready",
        },
      ],
      "daemonEndpoints": {
        "kubeletEndpoint": {
          "Port": 10250,
        },
      },
      "declaredFeatures": [
        "InPlacePodLevelResourcesVerticalScaling",
        "RestartAllContainersOnContainerExits",
      ],
      "images": [
        {
          "names": [
            "busybox@sha256:1",
            "busybox:1",
          ],
          "sizeBytes": 2000000,
        },
      ],
      "nodeInfo": {
        "architecture": "amd64",
        "bootID": "11111111-2222-3333-4444-555555555555",
        "containerRuntimeVersion": "containerd://1.6.20",
        "kernelVersion": "6.1.0-44-amd64",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.3",
        "machineID": "0123456789abcdef0123456789abcdef",
        "operatingSystem": "linux",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "systemUUID": "01234567-89ab-cdef-0123-456789abcdef",
      },
      "runtimeHandlers": [],
    }
  `);
});

test("the addresses follow from the node's own, --node-ip and the cloud provider", () => {
  const reported: readonly NodeAddress[] = [{ type: "ExternalIP", address: "203.0.113.1" }];
  const cloud = { isCloudExternal: true };
  const one = { nodeIPs: ["192.0.2.1"] };
  const before = { addresses: reported };
  const print = ({ addresses = [] }: NodeStatus) =>
    addresses.map(({ type, address }) => `${type} ${address}`).join(", ");
  const rows = {
    "one address": print(status()),
    "one of each family": print(status({ addresses: ["192.0.2.1", "2001:db8::1"] })),
    "none yet": print(status({ addresses: [] })),
    "the last one has gone": print(status({ addresses: [] }, {}, before)),
    "another one": print(status({}, {}, before)),
    "a cloud provider without addresses": print(status({}, cloud)),
    "a cloud provider without addresses, and --node-ip": print(status({}, { ...cloud, ...one })),
    "a cloud provider with addresses": print(status({}, { ...cloud, ...one }, before)),
  };
  const lines = Object.entries(rows).map(([name, text]) => `${name}: ${text}`);
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    one address: InternalIP 192.0.2.1, Hostname node-a
    one of each family: InternalIP 192.0.2.1, InternalIP 2001:db8::1, Hostname node-a
    none yet: Hostname node-a
    the last one has gone: ExternalIP 203.0.113.1
    another one: InternalIP 192.0.2.1, Hostname node-a
    a cloud provider without addresses: Hostname node-a
    a cloud provider without addresses, and --node-ip: InternalIP 192.0.2.1, Hostname node-a
    a cloud provider with addresses: ExternalIP 203.0.113.1
    "
  `);
});

test("images are sorted by size, with five names each, digests before tags", () => {
  const image = (id: string, sizeBytes: number, digests: readonly string[], tags: readonly string[]) => ({
    id,
    sizeBytes,
    digests,
    tags,
  });
  const names = (count: number) => Array.from({ length: count }, (_, index) => `t:${index}`);
  const images = [
    image("a", 5, ["a@1"], ["a:1"]),
    image("c", 7, ["c@1", "c@2"], names(5)),
    image("b", 5, [], ["b:1"]),
    image("d", 0, [], []),
  ];
  const print = ({ images: found }: NodeStatus) =>
    found?.map(({ names: all = [], sizeBytes }) => `${sizeBytes}: ${all.join(" ")}`) ?? "absent";
  expect({
    all: print(status({ images })),
    "at most two": print(status({ images }, { nodeStatusMaxImages: 2 })),
    "without a limit": print(status({ images }, { nodeStatusMaxImages: -1 })).length,
    "none to be reported": print(status({ images }, { nodeStatusMaxImages: 0 })),
    "not listed yet": print(status({ images: undefined })),
    "not listed yet, but reported by an earlier agent": print(
      status({ images: undefined }, {}, { images: [{ names: ["x"] }] }),
    ),
    "there are none any more": print(status({ images: [] }, {}, { images: [{ names: ["x"] }] })),
  }).toMatchInlineSnapshot(`
    {
      "all": [
        "7: c@1 c@2 t:0 t:1 t:2",
        "5: b:1",
        "5: a@1 a:1",
        "undefined: ",
      ],
      "at most two": [
        "7: c@1 c@2 t:0 t:1 t:2",
        "5: b:1",
      ],
      "none to be reported": [],
      "not listed yet": "absent",
      "not listed yet, but reported by an earlier agent": [
        "undefined: x",
      ],
      "there are none any more": [],
      "without a limit": 4,
    }
  `);
});

test("the runtime's features are sorted by name and kept while the runtime is unavailable", () => {
  const handler = (name: string, userNamespaces: boolean) => ({ name, userNamespaces, recursiveReadOnlyMounts: true });
  const runtime = {
    ...observedRuntime,
    supplementalGroupsPolicy: false,
    handlers: [handler("runc", true), handler("", false)],
  };
  const known = status({ runtime });
  const print = ({ runtimeHandlers, features, nodeInfo }: NodeStatus) =>
    `${nodeInfo?.containerRuntimeVersion} ${JSON.stringify(runtimeHandlers)} ${JSON.stringify(features)}`;
  const rows = {
    "it tells": print(known),
    "it tells nothing": print(status()),
    "it has never responded": print(status({ runtime: unknownRuntime })),
    "it has not responded yet, but to an earlier agent": print(status({ runtime: unknownRuntime }, {}, known)),
    "its version is not known": print(status({ runtime: { ...observedRuntime, version: "" } })),
  };
  const lines = Object.entries(rows).map(([name, text]) => `${name}:\n  ${text}`);
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    it tells:
      containerd://1.6.20 [{"features":{"recursiveReadOnlyMounts":true,"userNamespaces":false}},{"name":"runc","features":{"recursiveReadOnlyMounts":true,"userNamespaces":true}}] {"supplementalGroupsPolicy":false}
    it tells nothing:
      containerd://1.6.20 [] undefined
    it has never responded:
      unknown://Unknown undefined undefined
    it has not responded yet, but to an earlier agent:
      containerd://1.6.20 [{"features":{"recursiveReadOnlyMounts":true,"userNamespaces":false}},{"name":"runc","features":{"recursiveReadOnlyMounts":true,"userNamespaces":true}}] {"supplementalGroupsPolicy":false}
    its version is not known:
      containerd://Unknown [] undefined
    "
  `);
});

test("a runtime's version has a form that clients can compare", () => {
  const version = (text: string) =>
    status({ runtime: { ...observedRuntime, version: text } }).nodeInfo?.containerRuntimeVersion.slice(
      "containerd://".length,
    );
  const rows = ["2.1.4", "v2.2.0-rc.1+build.5", "1.6.20~ds1", "v1.7.24+bla~1", "1.31", "19", "unknown", ""];
  expect(rows.map((text) => `${text} → ${version(text)}`)).toMatchInlineSnapshot(`
    [
      "2.1.4 → 2.1.4",
      "v2.2.0-rc.1+build.5 → 2.2.0-rc.1+build.5",
      "1.6.20~ds1 → 1.6.20",
      "v1.7.24+bla~1 → 1.7.24",
      "1.31 → 1.31",
      "19 → Unknown",
      "unknown → Unknown",
      " → Unknown",
    ]
  `);
});

test("fields of other writers are kept, obsolete fields are removed", () => {
  const before: NodeStatus = {
    capacity: { cpu: "1", "example.com/dongle": "2", "scheduling.k8s.io/foo": "1" },
    allocatable: { cpu: "1", "example.com/dongle": "1", "example.com/gone": "3", odd: "1" },
    conditions: [{ type: "NetworkUnavailable", status: "False" }],
    volumesAttached: [{ name: "v", devicePath: "" }],
    volumesInUse: ["v"],
    declaredFeatures: ["InPlacePodVerticalScalingInitContainers"],
    config: { error: "x" },
  };
  const { capacity, allocatable, conditions, ...after } = status({}, {}, before);
  const { volumesAttached, volumesInUse, declaredFeatures, config } = after;
  expect({ capacity, allocatable, volumesAttached, volumesInUse, declaredFeatures, config }).toMatchInlineSnapshot(`
    {
      "allocatable": {
        "cpu": "4",
        "ephemeral-storage": "61847528960",
        "example.com/dongle": "2",
        "memory": "8092Mi",
        "odd": "1",
        "pods": "110",
        "scheduling.k8s.io/foo": "1",
      },
      "capacity": {
        "cpu": "4",
        "ephemeral-storage": "64Gi",
        "example.com/dongle": "2",
        "memory": "8Gi",
        "pods": "110",
        "scheduling.k8s.io/foo": "1",
      },
      "config": {
        "error": "x",
      },
      "declaredFeatures": [
        "InPlacePodLevelResourcesVerticalScaling",
        "RestartAllContainersOnContainerExits",
      ],
      "volumesAttached": [
        {
          "devicePath": "",
          "name": "v",
        },
      ],
      "volumesInUse": [
        "v",
      ],
    }
  `);
  expect(conditions?.[0]).toEqual({ type: "NetworkUnavailable", status: "False" });
});

test("a feature whose gate is off is not declared", () => {
  const before: NodeStatus = { declaredFeatures: ["RestartAllContainersOnContainerExits"] };
  expect(status({}, { declaredFeatures: [] }, before).declaredFeatures).toBeUndefined();
});

test("swap is reported if there is some, and the kubelet port if it is served", () => {
  const machine = { ...observedMachine, swapBytes: 1 << 20 };
  expect(status({ machine }).nodeInfo?.swap).toEqual({ capacity: 1 << 20 });
  expect(status({}, { kubeletPort: undefined }).daemonEndpoints).toBeUndefined();
});
