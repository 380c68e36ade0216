import { expect, test } from "bun:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import type { PodUid } from "../../proto/ids.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { leastCount } from "../../test/fakes/least-count.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { createPodCheckpoints } from "./pod-checkpoints.ts";
import { describeSource } from "./static/source-location.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const good: DesiredPod = {
  uid: "u-1" as PodUid,
  pod: {
    metadata: { name: "web", namespace: "default", uid: "u-1", labels: { app: "web" } },
    spec: { containers: [{ name: "a", image: "busybox:1", env: [{ name: "A", value: "b" }] }] },
  },
  source: { kind: "file", path: "/m/web.yaml" },
  acceptedAt: 1,
  revision: 0,
  termination: { requestedAt: 7, gracePeriodSeconds: 30, why: "its manifest is gone" },
};

/** What the next agent restores from a checkpoint with this text, and what it logs. */
async function loadedFrom(text: string) {
  const disk = new FakeDisk(() => 0);
  const root = disk.at("/");
  await root.makeFolder("berth", 0o700);
  await root.makeFolder("berth/pods", 0o700);
  await root.write("berth/pods/u-1.json", text, 0o600);
  const log = new FakeLog();
  const pods = await createPodCheckpoints(root, log).load();
  return { pods, reported: log.takeLines(), names: (await root.list("berth/pods"))?.map(({ name }) => name) };
}

/** A checkpoint with a matching checksum and any content. */
const whole = (record: string) => `{"version":1,"crc32":${crc32(record)},"record":${record}}\n`;

function replaced(value: unknown, at: number, by: unknown): unknown {
  let left = at;
  return JSON.parse(JSON.stringify(value), (_, each: unknown) => (left-- === 0 ? by : each));
}

/** A valid checkpoint with one value, anywhere, replaced or removed. */
const almostGood = fc
  .tuple(fc.nat(24), fc.oneof(fc.jsonValue(), fc.constantFrom(undefined, null, "", -1, "http")))
  .map(([at, by]) => whole(JSON.stringify(replaced(good, at, by)) ?? ""));

/** A valid checkpoint whose pod has any label. */
const valid = fc
  .string({ unit: "binary" })
  .map((app) => ({ ...good, pod: { ...good.pod, metadata: { ...good.pod.metadata, labels: { app } } } }))
  .map((record) => whole(JSON.stringify(record)));

const anyText = fc.oneof(
  { weight: 3, arbitrary: almostGood },
  { weight: 3, arbitrary: valid },
  fc.json().map(whole),
  fc.string({ unit: "binary", maxLength: 100 }).map(whole),
  fc.string({ unit: "binary", maxLength: 200 }),
);

test(
  "any text is restored, or set aside and logged; it never prevents the start of the agent",
  async () => {
    let restored = 0;
    const property = fc.asyncProperty(anyText, async (text) => {
      const { pods, reported, names } = await loadedFrom(text);
      if (pods.length === 0) {
        expect(reported).toEqual(["error: a pod checkpoint is unreadable and was set aside"]);
        expect(names).toEqual(["u-1.json.unreadable"]);
        return;
      }
      restored += 1;
      expect([reported, names]).toEqual([[], ["u-1.json"]]);
      // A restored pod can be decided and described.
      for (const { source, pod } of pods) {
        expect(describeSource(source)).toBeString();
        expect(pod.spec.containers).toBeArray();
        expect(pod.metadata).toBeObject();
      }
    });
    await fc.assert(property, { numRuns });
    expect(restored).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test("the valid checkpoint is restored, and an empty one with a matching checksum is not", async () => {
  expect((await loadedFrom(whole(JSON.stringify(good)))).pods).toEqual([good]);
  expect((await loadedFrom(whole(""))).pods).toEqual([]);
});
