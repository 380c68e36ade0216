import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PullImageRequest, PullImageResponse } from "../../proto/cri/gen/api.ts";
import { type Containerd, startContainerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { type Registry, startRegistry } from "../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage } from "../bed/images/images.ts";
import { failureOf } from "../contract/runtime.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

const login = { username: "captain", password: "let me in" };

describe.each(versionsUnderTest)("containerd %s", (version) => {
  let folder = "";
  let containerd: Containerd;
  let registry: Registry;
  let name = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-registry-test-"));
    containerd = await startContainerd({ version, stateDir: folder });
    registry = await startRegistry(containerd, login);
    const image = (await buildTestImages()).find((one) => one.name === busyboxImage)!;
    name = await registry.push(image);
  }, 600_000);

  afterAll(async () => {
    await registry.stop();
    await containerd.stop();
    await rm(folder, { recursive: true });
  });

  const pull = async (auth: object | undefined) =>
    await callCri(
      containerd.endpoint,
      "ImageService/PullImage",
      [PullImageRequest, PullImageRequest.fromPartial({ image: { image: name }, ...(auth && { auth }) })],
      PullImageResponse,
    );

  test("cannot pull an image without credentials or with wrong ones", async () => {
    expect(await failureOf(pull(undefined))).toMatchObject({ message: expect.stringMatching(/authorization|401/i) });
    const guessed = await failureOf(pull({ ...login, password: "guess" }));
    expect(guessed).toMatchObject({ message: expect.stringMatching(/authorization|401/i) });
  });

  test("pulls an image over plain HTTP with the right credentials", async () => {
    expect((await pull(login)).imageRef).toMatch(/sha256:[0-9a-f]{64}$/);
    expect(await containerd.ctr(["-n", "k8s.io", "images", "ls", "-q"])).toContain(name);
  });
});
