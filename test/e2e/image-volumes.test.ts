import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { busyboxImage } from "../bed/images/images.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const imageVolume = { name: "tools", image: { reference: busyboxImage, pullPolicy: "IfNotPresent" as const } };
const mounting = (name: string, text: string) =>
  podOf(
    name,
    {
      command: script(`(${text}) > /dev/termination-log 2>&1`),
      volumeMounts: [{ name: "tools", mountPath: "/v" }],
    },
    { volumes: [imageVolume], restartPolicy: "Never" },
  );

/** Releases that know image volumes. */
const mountImages: readonly string[] = ["2.1"];

for (const version of versionsUnderTest)
  describe(`an image volume on containerd ${version}`, () => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode({ version });
    }, 600_000);
    afterAll(() => node?.tearDown());

    const messageOf = async (name: string) => {
      const pod = await node.waitForPod(name, "it has ended", ({ status }) => status.phase === "Succeeded");
      return pod.status.containerStatuses?.[0]?.state?.terminated?.message;
    };

    if (mountImages.includes(version))
      test("shows the files of the image, read-only", async () => {
        await node.putManifest(mounting("whole", "test -x /v/bin/busybox && echo there; touch /v/new; echo done"));
        expect(await messageOf("whole")).toBe("there\ntouch: /v/new: Read-only file system\ndone\n");
      });
    else
      test("keeps its container from being created, and the status says why", async () => {
        await node.putManifest(mounting("refused", "true"));
        const pod = await node.waitForPod("refused", "its container is refused", ({ status }) =>
          Boolean(status.containerStatuses?.[0]?.state?.waiting?.message?.includes("failed to")),
        );
        expect(pod.status.containerStatuses?.[0]?.state?.waiting).toEqual({
          reason: "CreateContainerError",
          message: expect.stringMatching(/failed to (generate|mkdir|stat|resolve)/),
        });
      });
  });
