import { expect, test } from "bun:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import type { PodUid } from "../../proto/ids.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { createPodRecords } from "./pod-checkpoints.ts";
import { placeOf } from "./static/source-location.ts";

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

/** What the next agent reads where a record has this text, and what it says. */
async function loadedFrom(text: string) {
  const disk = new FakeDisk(() => 0);
  const root = disk.at("/");
  await root.makeFolder("berth", 0o700);
  await root.makeFolder("berth/pods", 0o700);
  await root.write("berth/pods/u-1.json", text, 0o600);
  const log = new FakeLog();
  const pods = await createPodRecords(root, log).load();
  return { pods, told: log.told(), names: (await root.list("berth/pods"))?.map(({ name }) => name) };
}

/** A record whose checksum fits, whatever it is a record of. */
const whole = (record: string) => `{"version":1,"crc32":${crc32(record)},"record":${record}}\n`;

function replaced(value: unknown, at: number, by: unknown): unknown {
  let left = at;
  return JSON.parse(JSON.stringify(value), (_, each: unknown) => (left-- === 0 ? by : each));
}

/** A good record in which one value, anywhere, is another one or is gone. */
const almostGood = fc
  .tuple(fc.nat(24), fc.oneof(fc.jsonValue(), fc.constantFrom(undefined, null, "", -1, "http")))
  .map(([at, by]) => whole(JSON.stringify(replaced(good, at, by)) ?? ""));

const anyText = fc.oneof(
  { weight: 3, arbitrary: almostGood },
  fc.json().map(whole),
  fc.string({ unit: "binary", maxLength: 100 }).map(whole),
  fc.string({ unit: "binary", maxLength: 200 }),
);

test(
  "any text is a record, or is set aside and said; it never keeps the agent from its start",
  async () => {
    const property = fc.asyncProperty(anyText, async (text) => {
      const { pods, told, names } = await loadedFrom(text);
      if (pods.length === 0) {
        expect(told).toEqual(["error: a pod's record is unreadable and set aside"]);
        expect(names).toEqual(["u-1.json.unreadable"]);
        return;
      }
      expect([told, names]).toEqual([[], ["u-1.json"]]);
      // What is loaded is decided upon and spoken of.
      for (const { source, pod } of pods) {
        expect(placeOf(source)).toBeString();
        expect(pod.spec.containers).toBeArray();
        expect(pod.metadata).toBeObject();
      }
    });
    await fc.assert(property, { numRuns });
  },
  longMs,
);

test("the good record is good, and an empty one whose checksum fits is none", async () => {
  expect((await loadedFrom(whole(JSON.stringify(good)))).pods).toEqual([good]);
  expect((await loadedFrom(whole(""))).pods).toEqual([]);
});
