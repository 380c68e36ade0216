import { describe, expect, test } from "bun:test";
import type { Json } from "../../../proto/yaml/value-node.ts";
import { describeProblem } from "../problem.ts";
import { splitCommandLine } from "./command-line.ts";
import { readSettings } from "./flag-overrides.ts";
import { flagGroups } from "./flag-table.ts";

function settingsOf(...argv: readonly string[]): {
  readonly values: Record<string, Json>;
  readonly problems: readonly string[];
} {
  const line = splitCommandLine(argv, flagGroups);
  const { byName, problems } = readSettings(line.given);
  const values = Object.fromEntries([...byName].map(([name, { value }]) => [name, value]));
  return { values, problems: [...line.problems, ...problems].map(describeProblem) };
}

describe("a flag", () => {
  const rows: readonly (readonly [string, readonly string[], Record<string, Json>])[] = [
    ["takes its value behind =", ["--max-pods=5"], { "max-pods": 5 }],
    ["takes its value from the next word", ["--max-pods", "5"], { "max-pods": 5 }],
    ["takes a next word that looks like a flag", ["--node-labels", "-"], {}],
    ["may be written with underscores", ["--max_pods=5"], { "max-pods": 5 }],
    ["that is a switch stands alone", ["--runonce", "--max-pods=5"], { runonce: true, "max-pods": 5 }],
    ["that is a switch can be turned off", ["--runonce=false"], { runonce: false }],
    ["of one letter takes the next word", ["-v", "2"], { v: 2 }],
    ["of one letter takes what is attached", ["-v2"], { v: 2 }],
    ["of one letter takes what stands behind =", ["-v=2"], { v: 2 }],
    ["of one letter has a long form", ["--v=2"], { v: 2 }],
    ["of one letter may follow a switch of one letter", ["-hv2"], { help: true, v: 2 }],
    ["given twice counts the last time", ["--max-pods=5", "--max-pods=6"], { "max-pods": 6 }],
    [
      "may be an integer in any of Go's notations",
      ["--max-pods=0x1F", "--pod-max-pids=1_000"],
      { "max-pods": 31, "pod-max-pids": 1000 },
    ],
    [
      "that is a list is parted by commas",
      ["--cluster-dns=1.1.1.1,2.2.2.2"],
      { "cluster-dns": ["1.1.1.1", "2.2.2.2"] },
    ],
    [
      "that is a list grows",
      ["--cluster-dns=1.1.1.1", "--cluster-dns=2.2.2.2"],
      { "cluster-dns": ["1.1.1.1", "2.2.2.2"] },
    ],
    ["that is a list may be empty", ["--enforce-node-allocatable="], { "enforce-node-allocatable": [] }],
    ["that is a list may quote", ['--tls-cipher-suites="a,b",c""d'], {}],
    [
      "that is a list may hold a quoted comma",
      ['--allowed-unsafe-sysctls="a,b",c'],
      { "allowed-unsafe-sysctls": ["a,b", "c"] },
    ],
    [
      "that is a map has pairs",
      ["--system-reserved=cpu=1, memory=1Gi"],
      { "system-reserved": { cpu: "1", memory: "1Gi" } },
    ],
    [
      "that is a map grows",
      ["--kube-reserved=cpu=1", "--kube-reserved=cpu=2,pid=3"],
      { "kube-reserved": { cpu: "2", pid: "3" } },
    ],
    [
      "of thresholds has < between",
      ["--eviction-hard=memory.available<1Gi"],
      { "eviction-hard": { "memory.available": "1Gi" } },
    ],
    [
      "of one pair keeps its commas",
      ["--cpu-manager-policy-options=a=b,c"],
      { "cpu-manager-policy-options": { a: "b,c" } },
    ],
    ["of gates has switches", ["--feature-gates=A=true,B=f"], { "feature-gates": { A: true, B: false } }],
    [
      "of headers keeps every value",
      ["--manifest-url-header=a:1,b:2", "--manifest-url-header=a:3"],
      { "manifest-url-header": { a: ["1", "3"], b: ["2"] } },
    ],
    [
      "of taints has three parts",
      ["--register-with-taints=k=v:NoSchedule,l:NoExecute"],
      {
        "register-with-taints": [
          { key: "k", value: "v", effect: "NoSchedule" },
          { key: "l", value: "", effect: "NoExecute" },
        ],
      },
    ],
    [
      "of memory has NUMA nodes",
      ["--reserved-memory=0:memory=1Gi;1:hugepages-2Mi=2Mi"],
      {
        "reserved-memory": [
          { numaNode: 0, limits: { memory: "1Gi" } },
          { numaNode: 1, limits: { "hugepages-2Mi": "2Mi" } },
        ],
      },
    ],
    [
      "of patterns has levels",
      ["--vmodule=a=1,b*=2"],
      {
        vmodule: [
          { filePattern: "a", verbosity: 1 },
          { filePattern: "b*", verbosity: 2 },
        ],
      },
    ],
    ["of labels may leave the value out", ["--node-labels=node-role.kubernetes.io/edge,a=b"], {}],
    [
      "of labels may be the node's own",
      ["--node-labels=a=b,c=,node.kubernetes.io/x=y"],
      { "node-labels": { a: "b", c: "", "node.kubernetes.io/x": "y" } },
    ],
  ];
  for (const [name, argv, expected] of rows) test(name, () => expect(settingsOf(...argv).values).toEqual(expected));
});

describe("is refused in one line", () => {
  const rows: readonly (readonly [string, readonly string[], string])[] = [
    ["an unknown flag", ["--max-pod=3"], "--max-pod: unknown flag, did you mean --max-pods?"],
    [
      "an unknown flag, its value not counted as a mistake of its own",
      ["--max-pod", "3"],
      "--max-pod: unknown flag, did you mean --max-pods?",
    ],
    ["an unknown flag like nothing", ["--zzzzzz"], "--zzzzzz: unknown flag"],
    ["words cut short", ["--log-format=json"], "--log-format: unknown flag, did you mean --logging-format?"],
    [
      "a field's name for its flag's",
      ["--static-pod-path", "/m"],
      "--static-pod-path: unknown flag, did you mean --pod-manifest-path?",
    ],
    [
      "a flag of earlier releases, with its value",
      ["--pod-infra-container-image", "pause:3"],
      "--pod-infra-container-image: was removed in Kubernetes 1.35: take it out",
    ],
    [
      "a flag of much earlier releases, however it is written",
      ["--network_plugin=cni"],
      "--network_plugin: was removed in Kubernetes 1.24: take it out",
    ],
    [
      "a switch with its value behind a space",
      ["--serialize-image-pulls", "false"],
      'command line: found "false", which is no flag: write --serialize-image-pulls=false',
    ],
    ["a switch with a word behind it", ["--runonce", "now"], 'command line: found "now", which is no flag'],
    ["a value with a value behind it", ["--max-pods=1", "true"], 'command line: found "true", which is no flag'],
    ["a long flag with one dash", ["-config=x"], "-config=x: unknown flag -c; long flags begin with --"],
    ["a flag without its value", ["--max-pods"], "--max-pods: needs a value: a int32"],
    ["a word that is no flag", ["run"], 'command line: found "run", which is no flag'],
    ["a word behind --", ["--", "--max-pods=3"], 'command line: found "--max-pods=3", which is no flag'],
    ["no number", ["--max-pods=x"], '--max-pods: found "x", must be an integer from 0 to 2147483647'],
    ["no switch", ["--runonce=yes"], '--runonce: found "yes", must be true or false'],
    ["no duration", ["--sync-frequency=10"], '--sync-frequency: found "10", must be a duration such as 300ms or 1m30s'],
    ["none of the words", ["--cloud-provider=aws"], '--cloud-provider: found "aws", must be one of "", "external"'],
    ["an open quote", ['--cluster-dns="a'], '--cluster-dns: found "\\"a", must be a list such as a,b or "a,b",c'],
    [
      "a header, which is not shown",
      ["--manifest-url-header=secret"],
      "--manifest-url-header: found a value that is not shown, must be headers such as name:value",
    ],
    [
      "a label that only the API server may give",
      ["--node-labels=kubernetes.io/role=x"],
      '--node-labels: found "kubernetes.io/role=x", must be labels that a node may give itself, which kubernetes.io/role is not',
    ],
    [
      "two addresses of one family",
      ["--node-ip=1.1.1.1,2.2.2.2"],
      '--node-ip: found "1.1.1.1,2.2.2.2", must be one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone',
    ],
  ];
  for (const [name, argv, expected] of rows) test(name, () => expect(settingsOf(...argv).problems).toEqual([expected]));
});

describe("an address of the node", () => {
  const refused = [
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
  for (const address of refused)
    test(`is not ${address}`, () => {
      expect(settingsOf(`--node-ip=${address}`).problems).toEqual([
        `--node-ip: found "${address}", must be one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone`,
      ]);
    });

  const taken = [
    "192.0.2.1",
    "0.0.0.0",
    "::",
    "2001:db8::1",
    "::2:1",
    "192.0.2.1, 2001:db8::1",
    "fec0::1",
    "223.0.0.1",
  ];
  for (const address of taken)
    test(`may be ${address}`, () => {
      expect(settingsOf(`--node-ip=${address}`).problems).toEqual([]);
    });
});
