import { expect, test } from "bun:test";
import { CniError } from "./error.ts";
import { type PluginExit, readPluginOutput, readVersions } from "./plugin-output.ts";

const exited = "/opt/cni/bin/bridge exited with code 1";
const errorObject = JSON.stringify({
  cniVersion: "1.0.0",
  code: 7,
  msg: "Invalid Configuration",
  details: "too small",
});

function outcomeOf(exit: Partial<PluginExit>): unknown {
  try {
    return readPluginOutput("bridge", { failure: undefined, stdout: "", stderr: "", ...exit });
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const { code, message, details, plugin, stderr } = error;
    return { code, message, details, plugin, stderr };
  }
}

const failed = (code: number, message: string, details: string, stderr = "") => ({
  code,
  message,
  details,
  plugin: "bridge",
  stderr,
});

const rows: readonly (readonly [what: string, exit: Partial<PluginExit>, outcome: unknown])[] = [
  ["an object", { stdout: ' {"cniVersion": "1.0.0"}\n' }, { cniVersion: "1.0.0" }],
  ["nothing", { stdout: " \n" }, undefined],
  [
    "an error object",
    { failure: exited, stdout: errorObject, stderr: "log" },
    failed(7, "Invalid Configuration", "too small", "log"),
  ],
  ["an error object of code 0", { failure: exited, stdout: '{"code":0,"msg":"no"}' }, failed(0, "no", "")],
  ["an error object and exit code 0", { stdout: errorObject }, failed(7, "Invalid Configuration", "too small")],
  ["an object with code 0 and exit code 0", { stdout: '{"code":0,"msg":""}' }, { code: 0, msg: "" }],
  ["nothing before it fails", { failure: exited }, failed(0, exited, "")],
  [
    "only logs before it fails",
    { failure: exited, stderr: "no iptables\n" },
    failed(0, exited, "no iptables", "no iptables\n"),
  ],
  [
    "garbage before it fails",
    { failure: exited, stdout: "panic: x", stderr: "y" },
    failed(0, exited, "panic: x; y", "y"),
  ],
  ["a result before it fails", { failure: exited, stdout: '{"ips":[]}' }, failed(0, exited, '{"ips":[]}')],
  ["garbage", { stdout: "panic" }, failed(6, "it printed no JSON object", "panic")],
  ["a list", { stdout: "[1]" }, failed(6, "it printed no JSON object", "[1]")],
  ["null", { stdout: "null" }, failed(6, "it printed no JSON object", "null")],
];
for (const [what, exit, outcome] of rows)
  test(`a plugin that prints ${what}`, () => expect(outcomeOf(exit)).toEqual(outcome));

test("an error does not contain megabytes of output", () => {
  const text = "x".repeat(1 << 20);
  const { details, stderr } = outcomeOf({ failure: exited, stdout: text, stderr: text }) as CniError;
  expect([details.length, stderr.length]).toEqual([1004, 4096]);
});

test("VERSION lists versions; only a plugin of 0.2.0 may leave them out", () => {
  expect(readVersions("p", { cniVersion: "1.0.0", supportedVersions: ["0.4.0", "1.0.0"] })).toEqual(["0.4.0", "1.0.0"]);
  expect(readVersions("p", { cniVersion: "0.2.0" })).toEqual(["0.1.0", "0.2.0"]);
  expect(() => readVersions("p", { cniVersion: "1.0.0" })).toThrow("it answered VERSION without supportedVersions");
  expect(() => readVersions("p", undefined)).toThrow("it answered VERSION without supportedVersions");
});
