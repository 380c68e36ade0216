import { expect, test } from "bun:test";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { shouldRestart } from "./restart.ts";

const rule = (operator: string, ...values: readonly number[]) => ({
  action: "Restart",
  exitCodes: { operator, values },
});
const ruleForAll = (operator: string, ...values: readonly number[]) => ({
  ...rule(operator, ...values),
  action: "RestartAllContainers",
});

const own: readonly [words: string, Partial<Container>][] = [
  ["no own policy", {}],
  ["Always", { restartPolicy: "Always" }],
  ["OnFailure", { restartPolicy: "OnFailure" }],
  ["Never", { restartPolicy: "Never" }],
  ["Never, but In [42]", { restartPolicy: "Never", restartPolicyRules: [rule("In", 42)] }],
  ["Never, but NotIn [0, 42]", { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 0, 42)] }],
  ["Never, but NotIn [42]", { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 42)] }],
  ["Never, but In [1], In [42]", { restartPolicy: "Never", restartPolicyRules: [rule("In", 1), rule("In", 42)] }],
  ["Never, but restart all In [42]", { restartPolicy: "Never", restartPolicyRules: [ruleForAll("In", 42)] }],
  ["Never, but restart all NotIn [1]", { restartPolicy: "Never", restartPolicyRules: [ruleForAll("NotIn", 1)] }],
  [
    "Never, but In [0], restart all NotIn [1]",
    { restartPolicy: "Never", restartPolicyRules: [rule("In", 0), ruleForAll("NotIn", 1)] },
  ],
] as readonly [string, Partial<Container>][];

test("a container restarts after the exit codes 0, 1 and 42 by the pod's policy and its own", () => {
  const lines = (["Always", "OnFailure", "Never"] as const).flatMap((restartPolicy) =>
    own.map(([policyName, more]) => {
      const container = { name: "a", ...more };
      const codesFor = (spec: Pod["spec"]) =>
        [0, 1, 42].filter((exitCode) => shouldRestart({ metadata: {}, spec }, container, { exitCode })).join(", ") ||
        "-";
      const asApp = codesFor({ restartPolicy, containers: [container] });
      const asInit = codesFor({ restartPolicy, containers: [], initContainers: [container] });
      return `${restartPolicy}; ${policyName}: app ${asApp}; init ${asInit}`;
    }),
  );
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    Always; no own policy: app 0, 1, 42; init 1, 42
    Always; Always: app 0, 1, 42; init 0, 1, 42
    Always; OnFailure: app 1, 42; init 1, 42
    Always; Never: app -; init -
    Always; Never, but In [42]: app 42; init 42
    Always; Never, but NotIn [0, 42]: app 1; init 1
    Always; Never, but NotIn [42]: app 0, 1; init 1
    Always; Never, but In [1], In [42]: app 1, 42; init 1, 42
    Always; Never, but restart all In [42]: app 42; init 42
    Always; Never, but restart all NotIn [1]: app 0, 42; init 0, 42
    Always; Never, but In [0], restart all NotIn [1]: app 0, 42; init 42
    OnFailure; no own policy: app 1, 42; init 1, 42
    OnFailure; Always: app 0, 1, 42; init 0, 1, 42
    OnFailure; OnFailure: app 1, 42; init 1, 42
    OnFailure; Never: app -; init -
    OnFailure; Never, but In [42]: app 42; init 42
    OnFailure; Never, but NotIn [0, 42]: app 1; init 1
    OnFailure; Never, but NotIn [42]: app 0, 1; init 1
    OnFailure; Never, but In [1], In [42]: app 1, 42; init 1, 42
    OnFailure; Never, but restart all In [42]: app 42; init 42
    OnFailure; Never, but restart all NotIn [1]: app 0, 42; init 0, 42
    OnFailure; Never, but In [0], restart all NotIn [1]: app 0, 42; init 42
    Never; no own policy: app -; init -
    Never; Always: app 0, 1, 42; init 0, 1, 42
    Never; OnFailure: app 1, 42; init 1, 42
    Never; Never: app -; init -
    Never; Never, but In [42]: app 42; init 42
    Never; Never, but NotIn [0, 42]: app 1; init 1
    Never; Never, but NotIn [42]: app 0, 1; init 1
    Never; Never, but In [1], In [42]: app 1, 42; init 1, 42
    Never; Never, but restart all In [42]: app 42; init 42
    Never; Never, but restart all NotIn [1]: app 0, 42; init 0, 42
    Never; Never, but In [0], restart all NotIn [1]: app 0, 42; init 42
    "
  `);
});

test.each<[message: string, isInterrupted: boolean]>([
  ["failed to create containerd task: task 08eed870: already exists", true],
  ["failed to create containerd task: failed to create shim task: context canceled: unknown", true],
  ["failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown", true],
  [
    "failed to create containerd task: failed to start shim: mkdir /run/containerd/task/08eed870: file exists: unknown",
    true,
  ],
  ["failed to create containerd task: failed to start shim: mkdir /run/containerd/task/08eed870: no space left", false],
  ["failed to create containerd task: failed to start shim: start failed: : exec format error: unknown", false],
  ['failed to start containerd task "08eed870": context canceled: unknown', false],
  ["failed to create containerd task: failed to create shim task: OCI runtime create failed: no such file", false],
  ["", false],
])("a container that may run once is started again after the StartError %p: %p", (message, isInterrupted) => {
  const container = { name: "a" };
  const exit = { exitCode: 128, reason: "StartError", message };
  const spec: Pod["spec"] = { restartPolicy: "Never", containers: [container] };
  expect(shouldRestart({ metadata: {}, spec }, container, exit)).toBe(isInterrupted);
  const asInit = { ...spec, containers: [], initContainers: [container] };
  expect(shouldRestart({ metadata: {}, spec: asInit }, container, exit)).toBe(isInterrupted);
  const asEphemeral = { ...spec, containers: [], ephemeralContainers: [container] };
  expect(shouldRestart({ metadata: {}, spec: asEphemeral }, container, exit)).toBe(false);
  expect(shouldRestart({ metadata: {}, spec }, container, { ...exit, reason: "Error" })).toBe(false);
});
