import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { containerLogPath, podLogFolder } from "../log-path.ts";
import { TranslateError } from "../translate-error.ts";
import { emptyDirFolder, podFolder, volumeHostPath } from "./paths.ts";

const pod: Pod = { metadata: { name: "web", namespace: "shop", uid: "u-1" }, spec: { containers: [] } };
const facts = { rootDir: "/root-dir" };

test("folders and logs lie where the kubelet has them", () => {
  expect(podFolder("u-1")).toBe("pods/u-1");
  expect(emptyDirFolder("u-1", "cache")).toBe("pods/u-1/volumes/kubernetes.io~empty-dir/cache");
  expect(podLogFolder(pod)).toBe("shop_web_u-1");
  expect(podLogFolder({ ...pod, metadata: { name: "web", uid: "u-1" } })).toBe("default_web_u-1");
  expect(containerLogPath("a", 3)).toBe("a/3.log");
});

test("a hostPath is itself, an emptyDir lies below the root directory, and other kinds have no path", () => {
  expect(volumeHostPath(pod, { name: "v", hostPath: { path: "/srv/v" } }, facts)).toBe("/srv/v");
  expect(volumeHostPath(pod, { name: "v", emptyDir: {} }, facts)).toBe(
    "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/v",
  );
  expect(volumeHostPath(pod, { name: "v", secret: { secretName: "s" } }, facts)).toBeUndefined();
});

const escapes = ["..", ".", "", "../x", "a/b", "/etc", "a\0b"];
for (const text of escapes)
  test(`no uid and no name ${JSON.stringify(text)} leads out of a folder`, () => {
    const refused = expect.objectContaining({
      reason: "FailedMount",
      message: expect.stringContaining(JSON.stringify(text)),
    });
    const volume = { name: text, emptyDir: {} };
    const calls = [
      () => podFolder(text),
      () => emptyDirFolder(text, "v"),
      () => emptyDirFolder("u", text),
      () => containerLogPath(text, 0),
      () => volumeHostPath(pod, volume, facts),
      () => volumeHostPath({ ...pod, metadata: { uid: text } }, { ...volume, name: "v" }, facts),
    ];
    for (const call of calls) {
      expect(call).toThrow(TranslateError);
      expect(call).toThrow(refused);
    }
  });

for (const text of ["a/b", "../x", "a\0b"])
  for (const key of ["namespace", "name", "uid"])
    test(`a log folder with the ${key} ${JSON.stringify(text)} is refused`, () => {
      expect(() => podLogFolder({ ...pod, metadata: { ...pod.metadata, [key]: text } })).toThrow(TranslateError);
    });

test("a name may hold dots, as long as it is not made of one or two of them", () => {
  expect(podFolder("...")).toBe("pods/...");
  expect(podFolder("..a")).toBe("pods/..a");
});
