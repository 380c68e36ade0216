import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { Image } from "../../proto/cri/gen/api.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeRuntime } from "../../test/fakes/runtime.ts";
import { createObservedImages } from "./image-presence.ts";

function createFixture() {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.addImage("here:1");
  return { clock, runtime, images: createObservedImages({ runtime, clock }) };
}

test("a present image is requested once per pod start, a missing one each time", async () => {
  const { runtime, images } = createFixture();
  for (let turn = 0; turn < 3; turn++) {
    expect(await images.presence("here:1")).toMatchObject({ present: true });
    expect(await images.presence("away:1")).toEqual({ present: false });
  }
  expect(runtime.calls).toEqual([
    "imageStatus here:1",
    "imageStatus away:1",
    "imageStatus away:1",
    "imageStatus away:1",
  ]);
});

test("a hundred concurrent pods share one request", async () => {
  const { runtime, images } = createFixture();
  const answers = await Promise.all(Array.from({ length: 100 }, () => images.presence("here:1")));
  expect(new Set(answers.map(({ present }) => present))).toEqual(new Set([true]));
  expect(runtime.calls).toHaveLength(1);
});

test("an image that was imported or tagged is found within five seconds", async () => {
  const { clock, runtime, images } = createFixture();
  runtime.images.set("here:1", Image.fromPartial({ id: "sha256:old" }));
  expect(await images.presence("here:1")).toMatchObject({ ref: "sha256:old" });
  runtime.images.set("here:1", Image.fromPartial({ id: "sha256:new" }));
  await clock.advance(4_999);
  expect(await images.presence("here:1")).toMatchObject({ ref: "sha256:old" });
  await clock.advance(1);
  expect(await images.presence("here:1")).toMatchObject({ ref: "sha256:new" });
  runtime.images.delete("here:1");
  await clock.advance(5_000);
  expect(await images.presence("here:1")).toEqual({ present: false });
});

test("an invalidated image is requested again, and no other", async () => {
  const { runtime, images } = createFixture();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  runtime.addImage("away:1");
  images.invalidate("away:1");
  runtime.calls.length = 0;
  expect(await images.presence("away:1")).toMatchObject({ present: true });
  expect(await images.presence("here:1")).toMatchObject({ present: true });
  expect(runtime.calls).toEqual(["imageStatus away:1"]);
});

test("after all are invalidated, each image is requested again", async () => {
  const { runtime, images } = createFixture();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  runtime.calls.length = 0;
  images.invalidate();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  expect(runtime.calls).toHaveLength(2);
});

for (const invalidated of ["away:1", undefined])
  test(`a response that was under way when ${invalidated ?? "everything"} was invalidated is not cached`, async () => {
    const { runtime, images } = createFixture();
    const answer = Promise.withResolvers<void>();
    runtime.after.imageStatus = () => answer.promise;
    const before = images.presence("away:1");
    await settlePromises();
    runtime.addImage("away:1");
    images.invalidate(invalidated);
    delete runtime.after.imageStatus;
    const after = images.presence("away:1");
    expect(await after).toMatchObject({ present: true });
    answer.resolve();
    expect(await before).toEqual({ present: false });
    expect(await images.presence("away:1")).toMatchObject({ present: true });
    expect(runtime.calls).toHaveLength(2);
  });

test("the cache keeps only the latest images", async () => {
  const { runtime, images } = createFixture();
  await images.presence("here:1");
  for (let name = 0; name < 1_100; name++) {
    runtime.addImage(`once:${name}`);
    await images.presence(`once:${name}`);
    await images.presence("here:1");
  }
  expect(runtime.calls).toHaveLength(1_101);
  await images.presence("once:1099");
  expect(runtime.calls).toHaveLength(1_101);
  await images.presence("once:0");
  expect(runtime.calls).toHaveLength(1_102);
});

test("a failed request is repeated", async () => {
  const { runtime, images } = createFixture();
  runtime.failures.imageStatus = [new CriError("UNAVAILABLE", "ImageStatus", "away")];
  await expect(images.presence("here:1")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await images.presence("here:1")).toMatchObject({ present: true });
});

const users: readonly [
  sentence: string,
  image: Parameters<typeof Image.fromPartial>[0],
  uid: number | undefined,
  username: string,
][] = [
  ["no user", {}, undefined, ""],
  ["a numeric user", { uid: { value: 1001n } }, 1001, ""],
  ["root by its number", { uid: { value: 0n } }, 0, ""],
  ["a user name", { username: "web" }, undefined, "web"],
];
for (const [sentence, image, uid, username] of users)
  test(`the presence of an image contains ${sentence}`, async () => {
    const { runtime, images } = createFixture();
    runtime.images.set("own:1", Image.fromPartial({ id: "sha256:1", ...image }));
    expect(await images.presence("own:1")).toEqual({ present: true, ref: "sha256:1", user: { uid, username } });
  });
