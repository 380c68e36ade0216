import { expect, test } from "bun:test";
import type { FileEntry } from "../../host/fs/files.ts";
import { type CniVerbDeps, runVerb } from "./verbs.ts";

const conf = JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: [{ type: "berth" }] });
const settings = {
  verb: "status",
  network: undefined,
  confDir: "/c",
  binDirs: ["/b"],
  cacheDir: "/v",
  chainDir: "/n",
  socket: "/s/cni.sock",
  netns: "",
  ifName: "eth0",
  containerId: "web",
  args: new Map<string, string>(),
  capabilityArgs: {},
  isOfAll: false,
  isJson: false,
} as const;

const FILE: FileEntry = { name: "10-pods.conflist", kind: "file" };

test("a plugin of this process needs no binary", async () => {
  const deps = {
    files: { list: async (path: string) => (path === "/c" ? [FILE] : undefined), read: async () => conf },
    inProcess: new Map([["berth", { call: async () => undefined }]]),
    binaries: { find: () => Promise.reject(new Error("a binary was searched")) },
    cni: { status: async () => "ready" },
    columns: Number.POSITIVE_INFINITY,
  } as Pick<CniVerbDeps, "inProcess" | "columns"> as CniVerbDeps;
  const { text, isGood } = await runVerb.status(settings, deps);
  expect({ isGood, text: text.replaceAll(/ {2,}/g, " | ") }).toEqual({
    isGood: true,
    text: `PLUGIN | BINARY | VERSIONS | STATE
berth | built in | 0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 1.0.0 1.1.0 | ok

pods: ready
`,
  });
});
