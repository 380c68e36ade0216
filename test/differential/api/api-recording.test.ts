import { expect, test } from "bun:test";
import { apiCases, nameOf } from "./api-cases.ts";
import { readApiRecording } from "./api-recording.ts";

test("the recording is of these requests", async () => {
  expect(Object.keys(await readApiRecording())).toEqual(apiCases.map(nameOf));
});

test("a recording of other requests, another bed or another kubelet is refused", async () => {
  await expect(readApiRecording({})).rejects.toThrow(/of other requests, pods or settings/);
  await expect(readApiRecording(undefined, "1.35.0-etcd-3.6.8")).rejects.toThrow(
    /are of kubelet .*, not 1\.35\.0-etcd/,
  );
});
