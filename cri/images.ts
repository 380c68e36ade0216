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
import type { Channel } from "./channel.ts";
import { ignoreNotFound } from "./error.ts";
import { imageMethod } from "./rpc-method.ts";
import type { Runtime } from "./runtime.ts";

const methods = {
  status: imageMethod("ImageStatus", ImageStatusRequest, ImageStatusResponse),
  pull: imageMethod("PullImage", PullImageRequest, PullImageResponse),
  list: imageMethod("ListImages", ListImagesRequest, ListImagesResponse),
  remove: imageMethod("RemoveImage", RemoveImageRequest, RemoveImageResponse),
  fsInfo: imageMethod("ImageFsInfo", ImageFsInfoRequest, ImageFsInfoResponse),
};

export type Images = Pick<Runtime, "imageStatus" | "pullImage" | "listImages" | "removeImage" | "imageFsInfo">;

const specOf = (image: string, annotations: ImageSpec["annotations"] = {}): ImageSpec => ({
  image,
  annotations,
  userSpecifiedImage: image,
  runtimeHandler: "",
  imageRef: "",
});

/** The image methods. `requestTimeoutMs` is the deadline of all but PullImage, which has none. */
export function createImages({ call }: Channel, requestTimeoutMs: number): Images {
  return {
    // Without the pod's annotations, which the kubelet sends here, too: the answer is cached for all pods of the image.
    async imageStatus(image, options) {
      const request = { image: specOf(image), verbose: false };
      return (await call(methods.status, request, { deadlineMs: requestTimeoutMs, ...options })).image;
    },
    async pullImage(image, auth, sandboxConfig, { annotations, ...options } = {}) {
      const request = { image: specOf(image, annotations), auth, sandboxConfig };
      return (await call(methods.pull, request, { deadlineMs: undefined, ...options })).imageRef as ImageRef;
    },
    async listImages(options) {
      return (await call(methods.list, { filter: undefined }, { deadlineMs: requestTimeoutMs, ...options })).images;
    },
    async removeImage(image, options) {
      const request = { image: specOf(image) };
      await call(methods.remove, request, { deadlineMs: requestTimeoutMs, ...options }).catch(ignoreNotFound);
    },
    async imageFsInfo(options) {
      return await call(methods.fsInfo, {}, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
