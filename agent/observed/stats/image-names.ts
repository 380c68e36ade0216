import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";

/** The names of the images of containers, which may be listed with an id. Each is asked for once, as long as a container has it. */
export interface ImageNames {
  /**
   * The first tag of each of these images, else its first digest; other images are forgotten. One that the runtime does not
   * report is missing. Never rejects.
   */
  of(images: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** Rule: containerd's CRI plugin names a container's image by the first reference, which cAdvisor shows. */
export function createImageNames(runtime: Pick<Runtime, "imageStatus">, deadlineMs: number): ImageNames {
  let known: ReadonlyMap<string, string> = new Map();

  async function nameOf(image: string): Promise<string | undefined> {
    try {
      const { repoTags = [], repoDigests = [] } = (await runtime.imageStatus(image, { deadlineMs })) ?? {};
      return [...repoTags, ...repoDigests][0];
    } catch (error) {
      // The runtime is away: the image is asked for with the next page.
      if (error instanceof CriError) return undefined;
      throw error;
    }
  }

  return {
    async of(images) {
      const found = await Promise.all(
        [...new Set(images)].map(async (image) => {
          const name = known.get(image) ?? (await nameOf(image));
          return name === undefined ? [] : [[image, name] as const];
        }),
      );
      known = new Map(found.flat());
      return known;
    },
  };
}
