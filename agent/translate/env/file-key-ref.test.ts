import { expect, test } from "bun:test";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { parseEnvFile } from "./env-file.ts";
import { environmentOf } from "./environment.ts";
import { type EnvFiles, envFilesOf, type FileKeyRef } from "./file-key-ref.ts";
import { createBoundedExpander } from "./variable-expansion.ts";

const pod: Pod = {
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: {
    containers: [],
    volumes: [
      { name: "config", emptyDir: {} },
      { name: "host", hostPath: { path: "/etc" } },
    ],
  },
};
const filePath = `${nodeFacts.rootDir}/pods/u-1/volumes/kubernetes.io~empty-dir/config/app.env`;
const ref = (change: Partial<FileKeyRef> = {}): FileKeyRef => ({
  volumeName: "config",
  path: "app.env",
  key: "A",
  ...change,
});
const containerOf = (...refs: readonly FileKeyRef[]): Container => ({
  name: "a",
  env: refs.map((fileKeyRef, at) => ({ name: `V${at}`, valueFrom: { fileKeyRef } })),
});
const filesOf = (text: string): EnvFiles => new Map([["config/app.env", parseEnvFile(text)]]);
const absent: EnvFiles = new Map([["config/app.env", "absent"]]);

function environment(files: EnvFiles, ...refs: readonly FileKeyRef[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    environmentOf(
      { pod, container: containerOf(...refs), podIPs: [], files, facts: nodeFacts },
      createBoundedExpander("a", "CreateContainerConfigError"),
    ),
  );
}

test("a fileKeyRef variable has the file's value, unexpanded, and ignores other lines", () => {
  expect(environment(filesOf("A='$(B) $$'\nB='2'\nnonsense"), ref(), ref({ key: "B" }))).toEqual({
    V0: "$(B) $$",
    V1: "2",
  });
});

const optional = ref({ optional: true });
const omitted: readonly [sentence: string, files: EnvFiles][] = [
  ["its key does not exist", filesOf("B='2'")],
  ["its value is empty", filesOf("A=''")],
  ["its file does not exist", absent],
];
for (const [sentence, files] of omitted)
  test(`an optional fileKeyRef sets nothing when ${sentence}`, () => {
    expect(environment(files, optional)).toEqual({});
  });

const rejected: readonly [sentence: string, files: EnvFiles, selector: FileKeyRef, message: string][] = [
  ["a missing key", filesOf("B='2'"), ref(), `environment variable key "A" not found in file "${filePath}"`],
  ["an empty value", filesOf("A=''"), ref(), `environment variable key "A" not found in file "${filePath}"`],
  ["a missing file", absent, ref(), `couldn't parse env file: ${filePath} does not exist`],
  [
    "an invalid line before the key, even when optional,",
    filesOf("B=hunter2\nA='1'"),
    optional,
    `couldn't parse env file: ${filePath}: invalid environment variable format at line 1: value must be enclosed in single quotes`,
  ],
  [
    "an unreadable file, even when optional,",
    new Map([["config/app.env", { unreadable: "x is a fifo, not a regular file" }]]),
    optional,
    "couldn't parse env file: x is a fifo, not a regular file",
  ],
  [
    "a value with a null byte",
    filesOf("A='hunter2\0'"),
    ref(),
    `couldn't parse env file: ${filePath}: the value of A has a null byte`,
  ],
  ["an unknown volume", absent, ref({ volumeName: "none" }), 'cannot find the volume "none" referenced by FileKeyRef'],
  [
    "a volume that is not an emptyDir",
    absent,
    ref({ volumeName: "host" }),
    'the volume "host" referenced by FileKeyRef is not an emptyDir',
  ],
];
for (const [sentence, files, selector, message] of rejected)
  test(`${sentence} fails the container with the kubelet's message, which shows no value`, () => {
    expect(() => environment(files, selector)).toThrow(
      expect.objectContaining({ reason: "CreateContainerConfigError", message }),
    );
    expect(message).not.toContain("hunter2");
  });

test("envFilesOf lists each file once, with the directory of its volume", () => {
  const locations = envFilesOf(pod, containerOf(ref(), ref({ key: "B" }), ref({ path: "../x" })));
  const folder = "pods/u-1/volumes/kubernetes.io~empty-dir/config";
  expect(locations).toEqual([
    { key: "config/app.env", folder, path: "app.env" },
    { key: "config/../x", folder, path: "../x" },
  ]);
});
