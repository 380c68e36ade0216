import type { KubeletConfiguration } from "../../../../proto/kubelet/config.ts";
import { JSON_TYPE, NO_SNIFF, sendText } from "../api-response.ts";
import type { Route } from "../route.ts";

/** `/configz`: the configuration that the agent runs with. Headers of `staticPodURL` may be credentials and are masked. */
export function createConfigRoutes(config: KubeletConfiguration): readonly Route[] {
  return [
    {
      pattern: "/configz",
      methods: "all",
      async handle(_request, response) {
        const { staticPodURLHeader: headers } = config;
        const masked = Object.fromEntries(Object.keys(headers).map((name) => [name, ["<masked>"]]));
        const text = JSON.stringify({ kubeletconfig: { ...config, staticPodURLHeader: masked } });
        sendText(response, 200, text, { "content-type": JSON_TYPE, ...NO_SNIFF });
      },
    },
  ];
}
