import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { Image } from "../../../proto/cri/gen/api.ts";
import { createImageNames } from "./image-names.ts";

function createFixture() {
  const asked: string[] = [];
  const images: Record<string, Partial<Image> | "away" | undefined> = {
    "sha256:1": {
      repoTags: ["docker.io/library/nginx:1", "docker.io/library/nginx:1.27"],
      repoDigests: ["nginx@sha256:9"],
    },
    "sha256:2": { repoDigests: ["docker.io/library/nginx@sha256:9"] },
    "sha256:3": {},
    "sha256:4": "away",
  };
  const names = createImageNames(
    {
      async imageStatus(image) {
        asked.push(image);
        const found = images[image];
        if (found === "away") throw new CriError("UNAVAILABLE", "ImageStatus", "no runtime");
        return found && Image.fromPartial(found);
      },
    },
    1_000,
  );
  return { asked, images, of: async (...ids: readonly string[]) => Object.fromEntries(await names.of(ids)) };
}

test("an image has its first tag as its name, else its first digest", async () => {
  const { of } = createFixture();
  expect(await of("sha256:1", "sha256:2", "sha256:3", "sha256:absent")).toEqual({
    "sha256:1": "docker.io/library/nginx:1",
    "sha256:2": "docker.io/library/nginx@sha256:9",
  });
});

test("the runtime is asked once for each image, as long as a container has it", async () => {
  const { asked, of } = createFixture();
  await of("sha256:1", "sha256:1", "sha256:2");
  await of("sha256:1");
  expect(asked).toEqual(["sha256:1", "sha256:2"]);
  await of("sha256:1", "sha256:2");
  expect(asked).toEqual(["sha256:1", "sha256:2", "sha256:2"]);
});

test("an image is asked for again while the runtime is away", async () => {
  const { images, of } = createFixture();
  expect(await of("sha256:4")).toEqual({});
  images["sha256:4"] = { repoTags: ["late:1"] };
  expect(await of("sha256:4")).toEqual({ "sha256:4": "late:1" });
});
