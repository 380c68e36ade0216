import { describe, expect, test } from "bun:test";
import verdicts from "../../test/golden/kubelet-acceptance.json" with { type: "json" };
import { loadConfig } from "./load.ts";
import { ConfigError } from "./problem.ts";

/** What the kubelet accepts and Berth rejects, with the reason. */
const stricterThanKubelet: ReadonlyMap<string, string> = new Map([
  ["MaxPods: 3", "the kubelet decodes leniently, with a warning, when strict decoding fails"],
  ["nosuch: 1", "the kubelet decodes leniently, with a warning"],
  ["authentication: {x509: {foo: 1}}", "the kubelet decodes leniently, with a warning"],
  ["apiVersion: kubelet.config.k8s.io/v1beta1", "the kubelet decodes leniently, with a warning (a repeated key)"],
  ["logging: {options: {json: {splitStream: true}}}", "the kubelet loses the setting before it validates it"],
  ["podLogsDir: var/log", "log paths would depend on the working directory"],
  ["clusterDNS: [null]", "an empty address is no DNS server"],
  [
    "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -10}]",
    "a grace period cannot be negative",
  ],
  ['"<<": {maxPods: 5}', "a quoted << is an ordinary, unknown key"],
  ["podPidsLimit: 9223372036854775807", "integers are exact up to 2^53"],
  ["maxOpenFiles: 9007199254740993", "integers are exact up to 2^53"],
  ["--register-with-taints=a-", "a taint to remove cannot be registered"],
  ["--address=", "the kubelet treats an empty address as unset"],
  ["--healthz-bind-address=", "the kubelet treats an empty address as unset"],
  ["--cloud-provider=gce", "the kubelet rejects it later in its start"],
]);

describe("a configuration file that the kubelet", () => {
  for (const { text, accepted } of verdicts.files)
    test(`${accepted ? "accepts" : "rejects"}: ${JSON.stringify(text)}`, async () => {
      const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
      expect(await isAccepted(["--config", "/kubelet.yaml"], `${head}${text}\n`)).toBe(
        accepted && !stricterThanKubelet.has(text),
      );
    });
});

describe("flags that the kubelet", () => {
  for (const { argv, accepted } of verdicts.commandLines)
    test(`${accepted ? "accepts" : "rejects"}: ${argv.join(" ")}`, async () => {
      expect(await isAccepted(argv, "")).toBe(accepted && !stricterThanKubelet.has(argv.join(" ")));
    });
});

test("every listed difference is accepted by the kubelet", () => {
  const accepted = [
    ...verdicts.files.map((row) => ({ ...row, name: row.text })),
    ...verdicts.commandLines.map((row) => ({ ...row, name: row.argv.join(" ") })),
  ]
    .filter((row) => row.accepted)
    .map(({ name }) => name);
  expect([...stricterThanKubelet.keys()].filter((name) => !accepted.includes(name))).toEqual([]);
});

async function isAccepted(argv: readonly string[], text: string): Promise<boolean> {
  const files = { read: () => Promise.resolve(text), list: () => Promise.resolve([]) };
  try {
    await loadConfig({ argv, files, workingDirectory: "/", hostname: "node" });
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return false;
  }
}
