import { setTimeout as pause } from "node:timers/promises";
import { startRegistry } from "../../bed/containerd/registry.ts";
import { buildTestImages, webImage } from "../../bed/images/images.ts";
import type { TestNode } from "../node.ts";

export interface SlowRegistry {
  /** The name of an image with busybox, of which each pull takes a second or longer. */
  readonly image: string;
  stop(): Promise<void>;
}

/** Every pull requests the manifest, also one whose layers are on the node. */
const MANIFEST_MS = 1_000;

/** Starts a registry for the node, behind a proxy that delays each manifest. */
export async function startSlowRegistry({ containerd }: TestNode): Promise<SlowRegistry> {
  const registry = await startRegistry(containerd);
  // Not the same image as that of other pods: a pulled image is no preloaded one any more, whatever its name.
  const [web] = (await buildTestImages()).filter(({ name }) => name === webImage);
  if (web === undefined) throw new Error(`no image is called ${webImage}`);
  await registry.push({ ...web, name: "berth.test/slow:1" });
  const proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch({ url, method, headers }): Promise<Response> {
      if (url.includes("/manifests/")) await pause(MANIFEST_MS);
      const target = new URL(url);
      target.host = registry.host;
      return await fetch(target, { method, headers });
    },
  });
  return {
    image: `127.0.0.1:${proxy.port}/berth.test/slow:1`,
    async stop() {
      await proxy.stop(true);
      await registry.stop();
    },
  };
}
