import type { ImageAction } from "../../decide/actions/image-actions.ts";
import { pullImage } from "../images/pull.ts";
import { type Performers, podOf } from "./performer.ts";

export const imagePerformers: Performers<ImageAction> = {
  pullImage: {
    async perform(
      { runtime, pulls, disk: { machine }, dockerConfigFiles, providers, records, facts },
      input,
      action,
      signal,
    ) {
      const deps = { runtime, pulls, machine, dockerConfigFiles, providers, records, facts };
      return { imageRef: await pullImage(deps, { ...input, ...action, pod: podOf(input) }, signal) };
    },
    effect: () => ({ kind: "nothing" }),
    changedImages: ({ image }) => ({ image }),
  },
};
