import { describe, expect, test } from "bun:test";
import type { Json } from "../../../proto/yaml/value-node.ts";
import { describeProblem } from "../problem.ts";
import { splitCommandLine } from "./command-line.ts";
import { parseFlagOverrides } from "./flag-overrides.ts";
import { flagGroups } from "./flag-table.ts";

function settingsOf(...argv: readonly string[]): {
  readonly values: Record<string, Json>;
  readonly problems: readonly string[];
} {
  const line = splitCommandLine(argv, flagGroups);
  const { byName, problems } = parseFlagOverrides(line.given);
  const values = Object.fromEntries([...byName].map(([name, { value }]) => [name, value]));
  return { values, problems: [...line.problems, ...problems].map(describeProblem) };
}

describe("a flag", () => {
  const rows: readonly (readonly [string, readonly string[], Record<string, Json>])[] = [
    ["takes its value after =", ["--max-pods=5"], { "max-pods": 5 }],
    ["takes the next argument as its value", ["--max-pods", "5"], { "max-pods": 5 }],
    ["takes a next argument that begins with a dash", ["--node-labels", "-"], {}],
    ["may use underscores", ["--max_pods=5"], { "max-pods": 5 }],
    ["of type bool takes no next argument", ["--runonce", "--max-pods=5"], { runonce: true, "max-pods": 5 }],
    ["of type bool may be set to false", ["--runonce=false"], { runonce: false }],
    ["of one letter takes the next argument", ["-v", "2"], { v: 2 }],
    ["of one letter takes an attached value", ["-v2"], { v: 2 }],
    ["of one letter takes a value after =", ["-v=2"], { v: 2 }],
    ["of one letter has a long form", ["--v=2"], { v: 2 }],
    ["of one letter may follow a bool flag of one letter", ["-hv2"], { help: true, v: 2 }],
    ["of a scalar type keeps its last value", ["--max-pods=5", "--max-pods=6"], { "max-pods": 6 }],
    [
      "of an integer type accepts Go's notations",
      ["--max-pods=0x1F", "--pod-max-pids=1_000"],
      { "max-pods": 31, "pod-max-pids": 1000 },
    ],
    ["of a list type is split at commas", ["--cluster-dns=1.1.1.1,2.2.2.2"], { "cluster-dns": ["1.1.1.1", "2.2.2.2"] }],
    [
      "of a list type accumulates",
      ["--cluster-dns=1.1.1.1", "--cluster-dns=2.2.2.2"],
      { "cluster-dns": ["1.1.1.1", "2.2.2.2"] },
    ],
    ["of a list type may be empty", ["--enforce-node-allocatable="], { "enforce-node-allocatable": [] }],
    ["of a list type accepts quotes", ['--tls-cipher-suites="a,b",c""d'], {}],
    [
      "of a list type accepts a quoted comma",
      ['--allowed-unsafe-sysctls="a,b",c'],
      { "allowed-unsafe-sysctls": ["a,b", "c"] },
    ],
    [
      "of a map type takes pairs",
      ["--system-reserved=cpu=1, memory=1Gi"],
      { "system-reserved": { cpu: "1", memory: "1Gi" } },
    ],
    [
      "of a map type accumulates",
      ["--kube-reserved=cpu=1", "--kube-reserved=cpu=2,pid=3"],
      { "kube-reserved": { cpu: "2", pid: "3" } },
    ],
    [
      "of thresholds separates key and value by <",
      ["--eviction-hard=memory.available<1Gi"],
      { "eviction-hard": { "memory.available": "1Gi" } },
    ],
    [
      "of a single pair keeps its commas",
      ["--cpu-manager-policy-options=a=b,c"],
      { "cpu-manager-policy-options": { a: "b,c" } },
    ],
    ["of feature gates takes booleans", ["--feature-gates=A=true,B=f"], { "feature-gates": { A: true, B: false } }],
    [
      "of headers keeps all values of a name",
      ["--manifest-url-header=a:1,b:2", "--manifest-url-header=a:3"],
      { "manifest-url-header": { a: ["1", "3"], b: ["2"] } },
    ],
    [
      "of taints takes key, value and effect",
      ["--register-with-taints=k=v:NoSchedule,l:NoExecute"],
      {
        "register-with-taints": [
          { key: "k", value: "v", effect: "NoSchedule" },
          { key: "l", value: "", effect: "NoExecute" },
        ],
      },
    ],
    [
      "of reserved memory takes NUMA nodes",
      ["--reserved-memory=0:memory=1Gi;1:hugepages-2Mi=2Mi"],
      {
        "reserved-memory": [
          { numaNode: 0, limits: { memory: "1Gi" } },
          { numaNode: 1, limits: { "hugepages-2Mi": "2Mi" } },
        ],
      },
    ],
    [
      "of patterns takes verbosities",
      ["--vmodule=a=1,b*=2"],
      {
        vmodule: [
          { filePattern: "a", verbosity: 1 },
          { filePattern: "b*", verbosity: 2 },
        ],
      },
    ],
    ["of node labels accepts a key without value", ["--node-labels=node-role.kubernetes.io/edge,a=b"], {}],
    [
      "of node labels accepts the kubelet's own labels",
      ["--node-labels=a=b,c=,node.kubernetes.io/x=y"],
      { "node-labels": { a: "b", c: "", "node.kubernetes.io/x": "y" } },
    ],
  ];
  for (const [name, argv, expected] of rows) test(name, () => expect(settingsOf(...argv).values).toEqual(expected));
});

describe("is rejected in one line:", () => {
  const rows: readonly (readonly [string, readonly string[], string])[] = [
    ["an unknown flag", ["--max-pod=3"], "--max-pod: unknown flag, did you mean --max-pods?"],
    [
      "an unknown flag, whose value is not a second error",
      ["--max-pod", "3"],
      "--max-pod: unknown flag, did you mean --max-pods?",
    ],
    ["an unknown flag without a similar one", ["--zzzzzz"], "--zzzzzz: unknown flag"],
    [
      "a flag with a shortened word",
      ["--log-format=json"],
      "--log-format: unknown flag, did you mean --logging-format?",
    ],
    [
      "the name of a field instead of its flag",
      ["--static-pod-path", "/m"],
      "--static-pod-path: unknown flag, did you mean --pod-manifest-path?",
    ],
    [
      "a removed flag with its value",
      ["--pod-infra-container-image", "pause:3"],
      "--pod-infra-container-image: was removed in Kubernetes 1.35: remove it",
    ],
    [
      "a long-removed flag with underscores",
      ["--network_plugin=cni"],
      "--network_plugin: was removed in Kubernetes 1.24: remove it",
    ],
    [
      "a bool flag with its value after a space",
      ["--serialize-image-pulls", "false"],
      'command line: unexpected argument "false": write --serialize-image-pulls=false',
    ],
    ["a bool flag followed by an argument", ["--runonce", "now"], 'command line: unexpected argument "now"'],
    ["a flag followed by a second value", ["--max-pods=1", "true"], 'command line: unexpected argument "true"'],
    ["a long flag with one dash", ["-config=x"], "-config=x: unknown flag, did you mean --config?"],
    [
      "a long flag with one dash, whose value is not a second error",
      ["-config", "x"],
      "-config: unknown flag, did you mean --config?",
    ],
    ["an unknown letter", ["-x"], "-x: unknown flag"],
    ["several unknown letters", ["-xyz"], "-xyz: unknown flag -x; long flags begin with --"],
    ["a flag without a value", ["--max-pods"], "--max-pods: needs a value: a int32"],
    ["a positional argument", ["run"], 'command line: unexpected argument "run"'],
    ["an argument after --", ["--", "--max-pods=3"], 'command line: unexpected argument "--max-pods=3"'],
    ["an invalid integer", ["--max-pods=x"], '--max-pods: found "x", must be an integer from 0 to 2147483647'],
    ["an invalid boolean", ["--runonce=yes"], '--runonce: found "yes", must be true or false'],
    [
      "an invalid duration",
      ["--sync-frequency=10"],
      '--sync-frequency: found "10", must be a duration such as 300ms or 1m30s',
    ],
    [
      "a value outside the enumeration",
      ["--cloud-provider=aws"],
      '--cloud-provider: found "aws", must be one of "", "external"',
    ],
    ["an unclosed quote", ['--cluster-dns="a'], '--cluster-dns: found "\\"a", must be a list such as a,b or "a,b",c'],
    [
      "an invalid header, whose value is not shown",
      ["--manifest-url-header=secret"],
      "--manifest-url-header: found a value that is not shown, must be headers such as name:value",
    ],
    [
      "a label that only others may set",
      ["--node-labels=kubernetes.io/role=x"],
      '--node-labels: found "kubernetes.io/role=x", must be labels that a node may set on itself, unlike kubernetes.io/role',
    ],
    [
      "two node addresses of one family",
      ["--node-ip=1.1.1.1,2.2.2.2"],
      '--node-ip: found "1.1.1.1,2.2.2.2", must be one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone',
    ],
  ];
  for (const [name, argv, expected] of rows) test(name, () => expect(settingsOf(...argv).problems).toEqual([expected]));
});

describe("--node-ip", () => {
  const rejectedAddresses = [
    "127.0.0.1",
    "127.1.2.3",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "169.254.1.1",
    "fe80::1",
    "FEBF::1",
    "fe80::1%eth0",
    "224.0.0.1",
    "239.1.1.1",
    "ff02::1",
    "192.0.2.1,fe80::1",
    "0.0.0.0,2001:db8::1",
    "192.0.2.1,::",
  ];
  for (const address of rejectedAddresses)
    test(`rejects ${address}`, () => {
      expect(settingsOf(`--node-ip=${address}`).problems).toEqual([
        `--node-ip: found "${address}", must be one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone`,
      ]);
    });

  const acceptedAddresses = [
    "192.0.2.1",
    "0.0.0.0",
    "::",
    "2001:db8::1",
    "::2:1",
    "192.0.2.1, 2001:db8::1",
    "fec0::1",
    "223.0.0.1",
  ];
  for (const address of acceptedAddresses)
    test(`accepts ${address}`, () => {
      expect(settingsOf(`--node-ip=${address}`).problems).toEqual([]);
    });
});
