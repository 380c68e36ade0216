import { expect, test } from "bun:test";
import type { Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { subPathsOf } from "./sub-paths.ts";

const pod: Pod = {
  metadata: { name: "web", uid: "u-1" },
  spec: {
    containers: [],
    volumes: [
      { name: "cache", emptyDir: {} },
      { name: "logs", hostPath: { path: "/var/log" } },
    ],
  },
};
const environment = new Map([
  ["NAME", "web"],
  ["EMPTY", ""],
  ["UP", ".."],
  ["ROOT", "/etc"],
]);
const subPaths = (...mounts: readonly Partial<VolumeMount>[]) =>
  subPathsOf(
    pod,
    { name: "a", volumeMounts: mounts.map((each) => ({ name: "cache", mountPath: "/v", ...each })) },
    environment,
    nodeFacts,
  );

test("a subPath is a path in its volume, and has a target of its own for each container and volumeMount", () => {
  expect(subPaths({}, { subPath: "a/b" }, { name: "logs", subPath: "x" }, { name: "none", subPath: "x" })).toEqual([
    {
      volume: "cache",
      volumePath: "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/cache",
      path: "a/b",
      target: "pods/u-1/volume-subpaths/cache/a/1",
    },
    {
      volume: "logs",
      volumePath: "/var/log",
      path: "x",
      target: "pods/u-1/volume-subpaths/logs/a/2",
      isNodePath: true,
    },
  ]);
});

const paths: readonly [mount: Partial<VolumeMount>, path: string][] = [
  [{ subPath: "$(NAME)" }, "$(NAME)"],
  [{ subPathExpr: "logs/$(NAME)/x" }, "logs/web/x"],
  [{ subPathExpr: "$$(NONE)" }, "$(NONE)"],
  [{ subPath: "..data/x" }, "..data/x"],
];
for (const [mount, path] of paths)
  test(`${JSON.stringify(mount)} is ${path}`, () => {
    expect(subPaths(mount)).toMatchObject([{ path }]);
  });

const refused: readonly [mount: Partial<VolumeMount>, message: string][] = [
  [{ subPathExpr: "$(NONE)/$(EMPTY)" }, "missing value for EMPTY, NONE"],
  [{ subPathExpr: "$(ROOT)/x" }, "error SubPath `/etc/x` must not be an absolute path"],
  [{ subPath: "/etc" }, "error SubPath `/etc` must not be an absolute path"],
  [{ subPathExpr: "x/$(UP)" }, "unable to provision SubPath `x/..`: must not contain '..'"],
];
for (const [mount, message] of refused)
  test(`${JSON.stringify(mount)} is refused: ${message}`, () => {
    expect(() => subPaths(mount)).toThrow(
      expect.objectContaining({ name: "TranslateError", reason: "CreateContainerConfigError", message }),
    );
  });
