import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { containerLogPath, podLogDir } from "../log-path.ts";
import { TranslateError } from "../translate-error.ts";
import { emptyDirPath, globalDeviceDir, localDeviceLink, podDir, volumeHostPath } from "./paths.ts";

const pod: Pod = { metadata: { name: "web", namespace: "shop", uid: "u-1" }, spec: { containers: [] } };
const facts = { rootDir: "/root-dir" };

test("directories and logs follow the kubelet's layout", () => {
  expect(podDir("u-1")).toBe("pods/u-1");
  expect(emptyDirPath("u-1", "cache")).toBe("pods/u-1/volumes/kubernetes.io~empty-dir/cache");
  expect(localDeviceLink("u-1", "pv-1")).toBe("pods/u-1/volumeDevices/kubernetes.io~local-volume/pv-1");
  expect(globalDeviceDir("pv-1")).toBe("plugins/kubernetes.io~local-volume/volumeDevices/pv-1");
  expect(podLogDir(pod)).toBe("shop_web_u-1");
  expect(podLogDir({ ...pod, metadata: { name: "web", uid: "u-1" } })).toBe("default_web_u-1");
  expect(containerLogPath("a", 3)).toBe("a/3.log");
});

test("a hostPath keeps its path, volumes of the pod lie below the root directory, unsupported kinds have no path", () => {
  expect(volumeHostPath(pod, { name: "v", hostPath: { path: "/srv/v" } }, facts)).toBe("/srv/v");
  expect(volumeHostPath(pod, { name: "v", emptyDir: {} }, facts)).toBe(
    "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/v",
  );
  expect(volumeHostPath(pod, { name: "v", secret: { secretName: "s" } }, facts)).toBe(
    "/root-dir/pods/u-1/volumes/kubernetes.io~secret/v",
  );
  expect(volumeHostPath(pod, { name: "v", csi: { driver: "example.com" } }, facts)).toBeUndefined();
});

const unsafeNames = ["..", ".", "", "../x", "a/b", "/etc", "a\0b"];
for (const text of unsafeNames)
  test(`${JSON.stringify(text)} is rejected as uid and as name, since it leaves the directory`, () => {
    const refused = expect.objectContaining({
      reason: "FailedMount",
      message: expect.stringContaining(JSON.stringify(text)),
    });
    const volume = { name: text, emptyDir: {} };
    const calls = [
      () => podDir(text),
      () => emptyDirPath(text, "v"),
      () => emptyDirPath("u", text),
      () => localDeviceLink("u", text),
      () => globalDeviceDir(text),
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
    test(`a log directory with the ${key} ${JSON.stringify(text)} is rejected`, () => {
      expect(() => podLogDir({ ...pod, metadata: { ...pod.metadata, [key]: text } })).toThrow(TranslateError);
    });

test("a name may contain dots unless it is . or ..", () => {
  expect(podDir("...")).toBe("pods/...");
  expect(podDir("..a")).toBe("pods/..a");
});
