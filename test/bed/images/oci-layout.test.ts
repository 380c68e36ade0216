import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { execa } from "execa";
import { imageRecipes } from "./images.ts";
import { buildImage, packLayout } from "./oci-layout.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const file = { path: "hello", kind: "file", bytes: bytes("hello") } as const;
const image = buildImage({ name: "berth.test/hello:1", layers: [[file]], command: ["/hello"] }, "arm64");
const read = (value: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(value));

test("digest and size of a blob match its bytes", () => {
  for (const { digest, size, bytes: content } of [...image.layers, image.config, image.manifest])
    expect([digest, size]).toEqual([`sha256:${createHash("sha256").update(content).digest("hex")}`, content.length]);
});

test("the image configuration has the architecture, the command and the digests of the uncompressed layers", () => {
  expect(read(image.config.bytes)).toMatchObject({
    architecture: "arm64",
    os: "linux",
    config: { Cmd: ["/hello"] },
    rootfs: { type: "layers", diff_ids: image.layers.map(({ digest }) => digest) },
  });
  expect(JSON.stringify(read(image.config.bytes))).not.toContain("Entrypoint");
});

test("the manifest refers to configuration and layers by type, digest and size", () => {
  const refer = ({ mediaType, digest, size }: (typeof image)["config"]) => ({ mediaType, digest, size });
  expect(read(image.manifest.bytes)).toMatchObject({
    schemaVersion: 2,
    config: refer(image.config),
    layers: image.layers.map(refer),
  });
});

test("a layout contains each blob once and annotates its images with their names for containerd", async () => {
  const twin = buildImage({ name: "berth.test/twin:2", layers: [[file]] }, "arm64");
  const layout = packLayout([image, twin]);
  const { stdout: names } = await execa("tar", ["--list", "--file=-"], { input: layout });
  const blobs = [image.layers[0]!, image.config, image.manifest, twin.config, twin.manifest];
  const paths = blobs.map(({ digest }) => `blobs/${digest.replace(":", "/")}`);
  expect(names.split("\n")).toEqual(["oci-layout", "index.json", ...paths]);
  const index = await execa("tar", ["--extract", "--to-stdout", "--file=-", "index.json"], { input: layout });
  expect(JSON.parse(index.stdout)).toMatchObject({
    manifests: [
      { digest: image.manifest.digest, annotations: { "io.containerd.image.name": "berth.test/hello:1" } },
      { digest: twin.manifest.digest, annotations: { "io.containerd.image.name": "berth.test/twin:2" } },
    ],
  });
});

test("the test images link every applet to busybox and share the layer with the applets", () => {
  const [pause, busybox, web] = imageRecipes(bytes("busybox"), bytes("catatonit"), ["busybox", "sh", "httpd"]);
  expect(busybox!.layers[0]).toContainEqual({ path: "bin/sh", kind: "symlink", target: "busybox" });
  expect(busybox!.layers[0]!.filter(({ path }) => path === "bin/busybox")).toMatchObject([
    { kind: "file", mode: 0o755 },
  ]);
  expect(web!.layers[0]).toEqual(busybox!.layers[0]!);
  expect(pause!.entrypoint).toEqual(["/catatonit", "-P"]);
});
