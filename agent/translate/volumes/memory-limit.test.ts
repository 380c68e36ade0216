import { expect, test } from "bun:test";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { memoryVolumeBytes } from "./memory-limit.ts";

const MI = 2 ** 20;
const limited = (memory?: string): Container => ({
  name: "a",
  image: "a",
  ...(memory !== undefined && { resources: { limits: { memory } } }),
});

test.each<[sentence: string, sizeLimit: string | undefined, containers: readonly Container[], mebibytes: number]>([
  ["without limits it is the node's allocatable memory", undefined, [limited()], 1000],
  ["its size limit counts", "64Mi", [limited()], 64],
  ["a size limit above the node's memory does not count", "2000Mi", [limited()], 1000],
  ["a size limit of 0 does not count", "0", [limited()], 1000],
  ["the limits of all containers count", undefined, [limited("100Mi"), limited("28Mi")], 128],
  ["a container without a limit may use all of the node's", undefined, [limited("100Mi"), limited()], 1000],
  ["the smaller of both counts", "64Mi", [limited("100Mi")], 64],
  ["the pod's limit is below the size limit", "64Mi", [limited("32Mi")], 32],
])("the size of an emptyDir in memory: %s", (_, sizeLimit, containers, mebibytes) => {
  const emptyDir = { medium: "Memory", ...(sizeLimit !== undefined && { sizeLimit }) } as const;
  const facts = { allocatable: new Map([["memory", BigInt(1000 * MI)]]) };
  expect(memoryVolumeBytes({ spec: { containers } }, { emptyDir }, facts)).toBe(mebibytes * MI);
});
