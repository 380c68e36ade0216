import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { sendJson } from "../api-response.ts";
import type { Route } from "../route.ts";

export interface PodRouteDeps {
  /** The pods that the sources list, with their status. */
  readonly all: () => readonly Pod[];
}

/** `/pods`: a PodList as the kubelet encodes it. */
export function createPodRoutes({ all }: PodRouteDeps): readonly Route[] {
  return [
    {
      pattern: "/pods",
      methods: ["GET"],
      async handle(_request, response) {
        sendJson(response, { kind: "PodList", apiVersion: "v1", metadata: {}, items: all().map(withoutType) });
      },
    },
  ];
}

/** The items of a list have no type of their own. */
function withoutType({ apiVersion, kind, ...pod }: Pod): Pod {
  return pod;
}
