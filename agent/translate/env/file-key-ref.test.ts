import { expect, test } from "bun:test";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { parseEnvFile } from "./env-file.ts";
import { environmentOf } from "./environment.ts";
import { type EnvFiles, envFilesOf, type FileKeyRef } from "./file-key-ref.ts";
import { createPortion } from "./variable-expansion.ts";

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
const place = `${nodeFacts.rootDir}/pods/u-1/volumes/kubernetes.io~empty-dir/config/app.env`;
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
      createPortion("a", "CreateContainerConfigError"),
    ),
  );
}

test("a variable has the value that the file gives it, whatever else is in the file; nothing in it is expanded", () => {
  expect(environment(filesOf("A='$(B) $$'\nB='2'\nnonsense"), ref(), ref({ key: "B" }))).toEqual({
    V0: "$(B) $$",
    V1: "2",
  });
});

const optional = ref({ optional: true });
const left: readonly [sentence: string, files: EnvFiles][] = [
  ["its key is not in the file", filesOf("B='2'")],
  ["its value is empty", filesOf("A=''")],
  ["its file is not there", absent],
];
for (const [sentence, files] of left)
  test(`an optional variable is left out where ${sentence}`, () => {
    expect(environment(files, optional)).toEqual({});
  });

const refused: readonly [sentence: string, files: EnvFiles, selector: FileKeyRef, message: string][] = [
  ["a key that is not there", filesOf("B='2'"), ref(), `environment variable key "A" not found in file "${place}"`],
  ["an empty value", filesOf("A=''"), ref(), `environment variable key "A" not found in file "${place}"`],
  ["a file that is not there", absent, ref(), `couldn't parse env file: ${place} does not exist`],
  [
    "a file that is wrong before the key, even where it is optional",
    filesOf("B=hunter2\nA='1'"),
    optional,
    `couldn't parse env file: ${place}: invalid environment variable format at line 1: value must be enclosed in single quotes`,
  ],
  [
    "a file that cannot be read, even where it is optional",
    new Map([["config/app.env", { unreadable: "x is a fifo, not a regular file" }]]),
    optional,
    "couldn't parse env file: x is a fifo, not a regular file",
  ],
  [
    "a value that no variable can have",
    filesOf("A='hunter2\0'"),
    ref(),
    `couldn't parse env file: ${place}: the value of A has a null byte`,
  ],
  [
    "a volume that the pod does not have",
    absent,
    ref({ volumeName: "none" }),
    'cannot find the volume "none" referenced by FileKeyRef',
  ],
  [
    "a volume that is no emptyDir",
    absent,
    ref({ volumeName: "host" }),
    'the volume "host" referenced by FileKeyRef is no emptyDir',
  ],
];
for (const [sentence, files, selector, message] of refused)
  test(`${sentence} fails the container in words that begin as the kubelet's, and tell no value`, () => {
    expect(() => environment(files, selector)).toThrow(
      expect.objectContaining({ reason: "CreateContainerConfigError", message }),
    );
    expect(message).not.toContain("hunter2");
  });

test("the files of a container are told once each, with the folder of their volume", () => {
  const places = envFilesOf(pod, containerOf(ref(), ref({ key: "B" }), ref({ path: "../x" })));
  const folder = "pods/u-1/volumes/kubernetes.io~empty-dir/config";
  expect(places).toEqual([
    { key: "config/app.env", folder, path: "app.env" },
    { key: "config/../x", folder, path: "../x" },
  ]);
});
