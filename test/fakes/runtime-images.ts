import type { CriError } from "../../cri/error.ts";
import type { PullOptions } from "../../cri/runtime.ts";
import { type AuthConfig, Image } from "../../proto/cri/gen/api.ts";
import type { ImageRef } from "../../proto/ids.ts";
import { unknownError } from "./runtime-objects.ts";

/** The images of the fake runtime, and the registry that it pulls from. */
export class FakeImages {
  /** The images on the node, by name. */
  readonly onNode = new Map<string, Image>();
  /** The images that can be pulled; a pull of an image with an error always fails with it. */
  readonly registry = new Map<string, CriError | undefined>();
  /** The images that need credentials, with the accepted `user:password`. */
  readonly privateImages = new Map<string, string>();
  /** The annotations of the ImageSpec of each pull, oldest first. */
  readonly pullAnnotations: Readonly<Record<string, string>>[] = [];
  /** The credentials of each pull, `user:password`, oldest first. */
  readonly pullCredentials: (string | undefined)[] = [];

  add(name: string): ImageRef {
    const id = `sha256:${new Bun.CryptoHasher("sha256").update(name).digest("hex")}`;
    this.onNode.set(name, Image.fromPartial({ id, repoTags: [name], size: 1_000_000n }));
    return id as ImageRef;
  }

  /** Finds an image by name or by id. */
  find(image: string): Image | undefined {
    return this.onNode.get(image) ?? [...this.onNode.values()].find(({ id }) => id === image);
  }

  pull(image: string, auth: AuthConfig | undefined, options: PullOptions | undefined): ImageRef {
    this.pullAnnotations.push(options?.annotations ?? {});
    const error = this.registry.get(image);
    if (error !== undefined) throw error;
    const credentials = auth === undefined ? undefined : `${auth.username}:${auth.password}`;
    this.pullCredentials.push(credentials);
    if (this.privateImages.has(image) && this.privateImages.get(image) !== credentials)
      throw unknownError("pullImage", `failed to resolve reference "${image}": pull access denied`);
    if (!this.registry.has(image)) throw unknownError("pullImage", `failed to resolve reference "${image}"`);
    return this.add(image);
  }

  /** Removes an image with all its names. */
  remove(image: string): void {
    const found = this.find(image);
    for (const [name, { id }] of this.onNode) if (id === found?.id) this.onNode.delete(name);
  }
}
