import { sendGoError } from "../api-response.ts";
import type { Route } from "../route.ts";

/** Endpoints that the configuration turns off: 405 with the kubelet's text. */
export function createDisabledRoutes(patterns: readonly string[], text: string): readonly Route[] {
  return patterns.map((pattern) => ({
    pattern,
    methods: "all",
    handle: async (_request, response) => sendGoError(response, 405, text),
  }));
}
