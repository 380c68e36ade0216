import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { Image } from "../../proto/cri/gen/api.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeRuntime } from "../../test/fakes/runtime.ts";
import { createObservedImages } from "./images.ts";

function createScene() {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.addImage("here:1");
  return { clock, runtime, images: createObservedImages({ runtime, clock }) };
}

test("an image that is there is asked for once a start, one that is not each time", async () => {
  const { runtime, images } = createScene();
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

test("a hundred pods that ask at once are one question", async () => {
  const { runtime, images } = createScene();
  const answers = await Promise.all(Array.from({ length: 100 }, () => images.presence("here:1")));
  expect(new Set(answers.map(({ present }) => present))).toEqual(new Set([true]));
  expect(runtime.calls).toHaveLength(1);
});

test("an image that was imported or tagged anew without a word is seen within five seconds", async () => {
  const { clock, runtime, images } = createScene();
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

test("a doubted image is asked for again, and no other", async () => {
  const { runtime, images } = createScene();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  runtime.addImage("away:1");
  images.doubt("away:1");
  runtime.calls.length = 0;
  expect(await images.presence("away:1")).toMatchObject({ present: true });
  expect(await images.presence("here:1")).toMatchObject({ present: true });
  expect(runtime.calls).toEqual(["imageStatus away:1"]);
});

test("after a doubt of all, all are asked for again", async () => {
  const { runtime, images } = createScene();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  runtime.calls.length = 0;
  images.doubt();
  await Promise.all([images.presence("here:1"), images.presence("away:1")]);
  expect(runtime.calls).toHaveLength(2);
});

for (const doubted of ["away:1", undefined])
  test(`an answer that was under way when ${doubted ?? "everything"} was doubted is not kept`, async () => {
    const { runtime, images } = createScene();
    const answer = Promise.withResolvers<void>();
    runtime.after.imageStatus = () => answer.promise;
    const before = images.presence("away:1");
    await rest();
    runtime.addImage("away:1");
    images.doubt(doubted);
    delete runtime.after.imageStatus;
    const after = images.presence("away:1");
    expect(await after).toMatchObject({ present: true });
    answer.resolve();
    expect(await before).toEqual({ present: false });
    expect(await images.presence("away:1")).toMatchObject({ present: true });
    expect(runtime.calls).toHaveLength(2);
  });

test("of the images of all the pods there ever were only the latest are remembered", async () => {
  const { runtime, images } = createScene();
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

test("a question that failed is asked again", async () => {
  const { runtime, images } = createScene();
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
  ["nobody", {}, undefined, ""],
  ["a number", { uid: { value: 1001n } }, 1001, ""],
  ["root by number", { uid: { value: 0n } }, 0, ""],
  ["a name", { username: "web" }, undefined, "web"],
];
for (const [sentence, image, uid, username] of users)
  test(`an image that asks for ${sentence}`, async () => {
    const { runtime, images } = createScene();
    runtime.images.set("own:1", Image.fromPartial({ id: "sha256:1", ...image }));
    expect(await images.presence("own:1")).toEqual({ present: true, ref: "sha256:1", user: { uid, username } });
  });
