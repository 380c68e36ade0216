import { describe, expect, test } from "bun:test";
import verdicts from "../../test/golden/kubelet-acceptance.json" with { type: "json" };
import { loadConfig } from "./load.ts";
import { ConfigError } from "./problem.ts";

/** What the kubelet accepts and the agent refuses, and why. */
const stricter: ReadonlyMap<string, string> = new Map([
  ["MaxPods: 3", "the kubelet falls back to lenient reading, with a warning, where strict reading fails"],
  ["nosuch: 1", "the same"],
  ["authentication: {x509: {foo: 1}}", "the same"],
  ["apiVersion: kubelet.config.k8s.io/v1beta1", "the same, for a key that stands there twice"],
  ["logging: {options: {json: {splitStream: true}}}", "the kubelet loses the setting before it validates it"],
  ["podLogsDir: var/log", "every container's log would depend on the working directory"],
  ["clusterDNS: [null]", "an empty address serves nobody"],
  ["shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -10}]", "time does not run backwards"],
  ['"<<": {maxPods: 5}', "a quoted << is a key, and an unknown one"],
  ["podPidsLimit: 9223372036854775807", "integers are exact up to 2^53"],
  ["maxOpenFiles: 9007199254740993", "integers are exact up to 2^53"],
  ["--register-with-taints=a-", "a taint to remove is no taint to register with"],
  ["--address=", "the kubelet takes an empty address for none"],
  ["--healthz-bind-address=", "the same"],
  ["--cloud-provider=gce", "the kubelet refuses it later in its start"],
]);

describe("a file that the kubelet", () => {
  for (const { text, accepted } of verdicts.files)
    test(`${accepted ? "accepts" : "refuses"}: ${JSON.stringify(text)}`, async () => {
      const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
      expect(await verdictOn(["--config", "/kubelet.yaml"], `${head}${text}\n`)).toBe(accepted && !stricter.has(text));
    });
});

describe("flags that the kubelet", () => {
  for (const { argv, accepted } of verdicts.commandLines)
    test(`${accepted ? "accepts" : "refuses"}: ${argv.join(" ")}`, async () => {
      expect(await verdictOn(argv, "")).toBe(accepted && !stricter.has(argv.join(" ")));
    });
});

test("every difference is one that the kubelet has another mind about", () => {
  const accepted = [
    ...verdicts.files.map((row) => ({ ...row, name: row.text })),
    ...verdicts.commandLines.map((row) => ({ ...row, name: row.argv.join(" ") })),
  ]
    .filter((row) => row.accepted)
    .map(({ name }) => name);
  expect([...stricter.keys()].filter((name) => !accepted.includes(name))).toEqual([]);
});

async function verdictOn(argv: readonly string[], text: string): Promise<boolean> {
  const files = { read: () => Promise.resolve(text), list: () => Promise.resolve([]) };
  try {
    await loadConfig({ argv, files, workingDirectory: "/", hostname: "node" });
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return false;
  }
}
