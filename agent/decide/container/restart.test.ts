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
  ["no policy of its own", {}],
  ["Always", { restartPolicy: "Always" }],
  ["OnFailure", { restartPolicy: "OnFailure" }],
  ["Never", { restartPolicy: "Never" }],
  ["Never, but In [42]", { restartPolicy: "Never", restartPolicyRules: [rule("In", 42)] }],
  ["Never, but NotIn [0, 42]", { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 0, 42)] }],
  ["Never, but NotIn [42]", { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 42)] }],
  ["Never, but In [1], In [42]", { restartPolicy: "Never", restartPolicyRules: [rule("In", 1), rule("In", 42)] }],
  ["Never, but all In [42]", { restartPolicy: "Never", restartPolicyRules: [ruleForAll("In", 42)] }],
  ["Never, but all NotIn [1]", { restartPolicy: "Never", restartPolicyRules: [ruleForAll("NotIn", 1)] }],
  [
    "Never, but In [0], all NotIn [1]",
    { restartPolicy: "Never", restartPolicyRules: [rule("In", 0), ruleForAll("NotIn", 1)] },
  ],
] as readonly [string, Partial<Container>][];

test("after which of the exit codes 0, 1 and 42 a container runs again, by the pod's policy and its own", () => {
  const lines = (["Always", "OnFailure", "Never"] as const).flatMap((restartPolicy) =>
    own.map(([words, more]) => {
      const container = { name: "a", ...more };
      const codesFor = (spec: Pod["spec"]) =>
        [0, 1, 42].filter((exitCode) => shouldRestart({ metadata: {}, spec }, container, { exitCode })).join(", ") ||
        "-";
      const asApp = codesFor({ restartPolicy, containers: [container] });
      const asInit = codesFor({ restartPolicy, containers: [], initContainers: [container] });
      return `${restartPolicy}; ${words}: app ${asApp}; init ${asInit}`;
    }),
  );
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    Always; no policy of its own: app 0, 1, 42; init 1, 42
    Always; Always: app 0, 1, 42; init 0, 1, 42
    Always; OnFailure: app 1, 42; init 1, 42
    Always; Never: app -; init -
    Always; Never, but In [42]: app 42; init 42
    Always; Never, but NotIn [0, 42]: app 1; init 1
    Always; Never, but NotIn [42]: app 0, 1; init 1
    Always; Never, but In [1], In [42]: app 1, 42; init 1, 42
    Always; Never, but all In [42]: app 42; init 42
    Always; Never, but all NotIn [1]: app 0, 42; init 0, 42
    Always; Never, but In [0], all NotIn [1]: app 0, 42; init 42
    OnFailure; no policy of its own: app 1, 42; init 1, 42
    OnFailure; Always: app 0, 1, 42; init 0, 1, 42
    OnFailure; OnFailure: app 1, 42; init 1, 42
    OnFailure; Never: app -; init -
    OnFailure; Never, but In [42]: app 42; init 42
    OnFailure; Never, but NotIn [0, 42]: app 1; init 1
    OnFailure; Never, but NotIn [42]: app 0, 1; init 1
    OnFailure; Never, but In [1], In [42]: app 1, 42; init 1, 42
    OnFailure; Never, but all In [42]: app 42; init 42
    OnFailure; Never, but all NotIn [1]: app 0, 42; init 0, 42
    OnFailure; Never, but In [0], all NotIn [1]: app 0, 42; init 42
    Never; no policy of its own: app -; init -
    Never; Always: app 0, 1, 42; init 0, 1, 42
    Never; OnFailure: app 1, 42; init 1, 42
    Never; Never: app -; init -
    Never; Never, but In [42]: app 42; init 42
    Never; Never, but NotIn [0, 42]: app 1; init 1
    Never; Never, but NotIn [42]: app 0, 1; init 1
    Never; Never, but In [1], In [42]: app 1, 42; init 1, 42
    Never; Never, but all In [42]: app 42; init 42
    Never; Never, but all NotIn [1]: app 0, 42; init 0, 42
    Never; Never, but In [0], all NotIn [1]: app 0, 42; init 42
    "
  `);
});
