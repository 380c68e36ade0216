import {
  ImageFsInfoRequest,
  ImageFsInfoResponse,
  type ImageSpec,
  ImageStatusRequest,
  ImageStatusResponse,
  ListImagesRequest,
  ListImagesResponse,
  PullImageRequest,
  PullImageResponse,
  RemoveImageRequest,
  RemoveImageResponse,
} from "../proto/cri/gen/api.ts";
import type { ImageRef } from "../proto/ids.ts";
import type { Connection } from "./channel.ts";
import { absentIsFine } from "./error.ts";
import { imageVerb } from "./rpc-method.ts";
import type { Runtime } from "./runtime.ts";

const verbs = {
  status: imageVerb("ImageStatus", ImageStatusRequest, ImageStatusResponse),
  pull: imageVerb("PullImage", PullImageRequest, PullImageResponse),
  list: imageVerb("ListImages", ListImagesRequest, ListImagesResponse),
  remove: imageVerb("RemoveImage", RemoveImageRequest, RemoveImageResponse),
  fsInfo: imageVerb("ImageFsInfo", ImageFsInfoRequest, ImageFsInfoResponse),
};

export type Images = Pick<Runtime, "imageStatus" | "pullImage" | "listImages" | "removeImage" | "imageFsInfo">;

const specOf = (image: string, annotations: ImageSpec["annotations"] = {}): ImageSpec => ({
  image,
  annotations,
  userSpecifiedImage: image,
  runtimeHandler: "",
  imageRef: "",
});

/** The verbs of images. `requestTimeoutMs` is the deadline of all but PullImage. */
export function createImages({ call }: Connection, requestTimeoutMs: number): Images {
  return {
    // Without the annotations of a pod, which the kubelet sends here too: one answer is for all pods of an image.
    async imageStatus(image, options) {
      const request = { image: specOf(image), verbose: false };
      return (await call(verbs.status, request, { deadlineMs: requestTimeoutMs, ...options })).image;
    },
    async pullImage(image, auth, sandboxConfig, { annotations, ...options } = {}) {
      const request = { image: specOf(image, annotations), auth, sandboxConfig };
      return (await call(verbs.pull, request, { deadlineMs: undefined, ...options })).imageRef as ImageRef;
    },
    async listImages(options) {
      return (await call(verbs.list, { filter: undefined }, { deadlineMs: requestTimeoutMs, ...options })).images;
    },
    async removeImage(image, options) {
      const request = { image: specOf(image) };
      await call(verbs.remove, request, { deadlineMs: requestTimeoutMs, ...options }).catch(absentIsFine);
    },
    async imageFsInfo(options) {
      return await call(verbs.fsInfo, {}, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
