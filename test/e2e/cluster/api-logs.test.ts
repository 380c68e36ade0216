import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { pollUntil } from "../../bed/poll-until.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "./api-objects.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("kubectl logs");
const LINES = 40_000;
const lines = (count: number, from = 1) =>
  Array.from({ length: count }, (_, n) => `line ${n + from} of a log that is rotated some times`).join("\n");

describe.skipIf(skip !== undefined)("kubectl logs through the API server", () => {
  let cluster: ClusterNode;
  const kubectl = (version: KubectlVersion, ...args: readonly string[]) =>
    cluster.plane.kubectl(["logs", ...args], { version });

  beforeAll(async () => {
    cluster = await startClusterNode(undefined, { containerLogMaxSize: "1Mi", containerLogMaxFiles: 3 });
    const say =
      "echo to stderr >&2; sleep 0.2; cat /proc/sys/kernel/random/uuid; for i in 1 2 3; do echo line $i; done";
    const count = `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo "line $i of a log that is rotated some times"; done`;
    const command = (text: string) => ["catatonit", "--", "sh", "-c", text];
    // Its second instance runs until the end.
    const endsOnce = `${say}; if [ -e /kept/ended ]; then sleep 1000000; fi; touch /kept/ended; exit 1`;
    const again = { name: "app", command: command(endsOnce), volumeMounts: [{ name: "kept", mountPath: "/kept" }] };
    await cluster.create([
      barePod("again", again, { volumes: [{ name: "kept", emptyDir: {} }], terminationGracePeriodSeconds: 1 }),
      barePod("waits", { name: "app", image: "berth.test/none:1" }),
      barePod("rotated", { name: "app", command: command(`sleep 20; ${count}; sleep 2`) }, { restartPolicy: "Never" }),
    ]);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  test("-f gets every line over rotations, and ends with the container", async () => {
    await cluster.waitForPods("start", "rotated", ([pod]) => pod?.status?.phase === "Running");
    const followed = await Promise.all((["1.32", "1.36"] as const).map((version) => kubectl(version, "-f", "rotated")));
    for (const text of followed) expect(text === lines(LINES)).toBe(true);
    // Without -f it is the current file alone, as with the kubelet.
    const now = await kubectl("1.36", "rotated");
    expect(now.length).toBeLessThan(1 << 20);
    expect(lines(LINES)).toEndWith(now);
  });

  test("what a container has written, and its last instance", async () => {
    await cluster.waitForPods("restart", "again", ([pod]) => {
      const [status] = pod?.status?.containerStatuses ?? [];
      return (status?.restartCount ?? 0) > 0 && status?.state?.running !== undefined;
    });
    const now = await pollUntil("its last line", 30_000, async () => {
      const text = await kubectl("1.36", "again");
      return text.includes("line 3") ? text : undefined;
    });
    const before = await kubectl("1.36", "again", "--previous");
    for (const text of [now, before]) {
      expect(text).toContain("to stderr");
      // The runtime reads stdout and stderr by themselves.
      const fromStdout = text.split("\n").filter((line) => line !== "to stderr");
      expect(fromStdout.slice(-3)).toEqual(["line 1", "line 2", "line 3"]);
    }
    expect(before).not.toBe(now);
    for (const version of ["1.32", "1.36"] as const) {
      expect(await kubectl(version, "again", "--previous", "--tail=2")).toBe("line 2\nline 3");
      expect(await kubectl(version, "again", "--previous", "--since=1h", "--tail=1")).toBe("line 3");
      expect(await kubectl(version, "again", "--previous", "--limit-bytes=9", "--tail=3")).toBe("line 1\nli");
      expect(await kubectl(version, "again", "--previous", "--timestamps", "--tail=1")).toMatch(
        /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line 3$/,
      );
      const future = new Date(Date.now() + 3_600_000).toISOString();
      expect(await kubectl(version, "again", "--previous", `--since-time=${future}`)).toBe("");
    }
  });

  test("what has no log is refused with the kubelet's texts", async () => {
    await cluster.waitForPods("wait", "waits", ([pod]) => /Pull/.test(waitingReason(pod?.status?.containerStatuses)));
    await expect(kubectl("1.36", "waits")).rejects.toThrow(
      /BadRequest.*container "app" in pod "waits" is waiting to start: (image can't be pulled|trying and failing to pull image)/,
    );
    await expect(kubectl("1.36", "waits", "--previous")).rejects.toThrow(
      /BadRequest.*previous terminated container "app" in pod "waits" not found/,
    );
  });
});

const waitingReason = (
  statuses: readonly { readonly state?: { readonly waiting?: { readonly reason?: string } } }[] = [],
): string => statuses[0]?.state?.waiting?.reason ?? "";
