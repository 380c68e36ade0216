import { createHash } from "node:crypto";
import { type TarEntry, writeTar } from "./tar.ts";

/** The content and configuration of an image. `layers` are the entries of each layer, lowest first. */
export interface ImageRecipe {
  readonly name: string;
  readonly layers: readonly (readonly TarEntry[])[];
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly env?: readonly string[];
  readonly user?: string;
  readonly workingDir?: string;
}

/** A blob with the fields of its descriptor. */
export interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly bytes: Uint8Array;
}

export interface BuiltImage {
  readonly name: string;
  readonly layers: readonly Blob[];
  readonly config: Blob;
  readonly manifest: Blob;
}

const oci = "application/vnd.oci.image";

/** Builds layers, configuration and manifest by the OCI image specification 1.0. Equal recipes give equal digests. */
export function buildImage(recipe: ImageRecipe, architecture: "amd64" | "arm64"): BuiltImage {
  const layers = recipe.layers.map((entries) => blob(`${oci}.layer.v1.tar`, writeTar(entries)));
  const config = jsonBlob(`${oci}.config.v1+json`, {
    architecture,
    os: "linux",
    created: "1970-01-01T00:00:00Z",
    config: {
      Env: recipe.env ?? ["PATH=/bin"],
      ...(recipe.entrypoint && { Entrypoint: recipe.entrypoint }),
      ...(recipe.command && { Cmd: recipe.command }),
      ...(recipe.user !== undefined && { User: recipe.user }),
      ...(recipe.workingDir !== undefined && { WorkingDir: recipe.workingDir }),
    },
    // Layers are not compressed, so a layer's digest is its diff id.
    rootfs: { type: "layers", diff_ids: layers.map((layer) => layer.digest) },
  });
  return { name: recipe.name, layers, config, manifest: manifestOf(config, layers) };
}

function manifestOf(config: Blob, layers: readonly Blob[]): Blob {
  return jsonBlob(`${oci}.manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${oci}.manifest.v1+json`,
    config: descriptor(config),
    layers: layers.map(descriptor),
  });
}

/**
 * An image with the same layers, another name and another id, so that a runtime treats it as a different image. It runs
 * as `user` if given.
 */
export function copyImage(image: BuiltImage, name: string, user?: string): BuiltImage {
  const before = JSON.parse(new TextDecoder().decode(image.config.bytes)) as { readonly config: object };
  const config = { ...before.config, ...(user !== undefined && { User: user }) };
  const own = jsonBlob(image.config.mediaType, { ...before, config, author: name });
  return { name, layers: image.layers, config: own, manifest: manifestOf(own, image.layers) };
}

/**
 * Packs images into one OCI image layout tar for `ctr images import`. containerd reads the full name of each image from
 * the annotation `io.containerd.image.name`.
 */
export function packLayout(images: readonly BuiltImage[]): Uint8Array {
  const blobs = new Map(
    images.flatMap((image) => [...image.layers, image.config, image.manifest]).map((one) => [one.digest, one]),
  );
  const index = {
    schemaVersion: 2,
    mediaType: `${oci}.index.v1+json`,
    manifests: images.map(({ name, manifest }) => ({
      ...descriptor(manifest),
      annotations: { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.split(":").at(-1) },
    })),
  };
  return writeTar([
    { path: "oci-layout", kind: "file", bytes: jsonBytes({ imageLayoutVersion: "1.0.0" }) },
    { path: "index.json", kind: "file", bytes: jsonBytes(index) },
    ...[...blobs.values()].map(({ digest, bytes }) => ({
      path: `blobs/${digest.replace(":", "/")}`,
      kind: "file" as const,
      bytes,
    })),
  ]);
}

const descriptor = ({ mediaType, digest, size }: Blob) => ({ mediaType, digest, size });
const jsonBytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const jsonBlob = (mediaType: string, value: unknown) => blob(mediaType, jsonBytes(value));

function blob(mediaType: string, bytes: Uint8Array): Blob {
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { mediaType, digest, size: bytes.length, bytes };
}
