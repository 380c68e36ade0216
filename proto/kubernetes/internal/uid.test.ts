import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import podRows from "../../../test/golden/pod-defaults.json" with { type: "json" };
import golden from "../../../test/golden/static-pod-uids.json" with { type: "json" };
import { parseYaml } from "../../yaml/parse.ts";
import { toJson } from "../../yaml/value-node.ts";
import { decodeStrict } from "../decode/strict-decode.ts";
import { kubernetesVersion } from "../version.ts";
import types from "./types.json" with { type: "json" };
import { staticPodUid } from "./uid.ts";

/** The manifests whose uids test/upstream/static-pod-uid records with the kubelet's own functions. */
const folder = join(import.meta.dir, "../../../test/golden/static-pods");
const { nodeName, url } = golden;
const http = { kind: "http", url } as const;

function readJson(name: string): unknown {
  const node = parseYaml(readFileSync(join(folder, name), "utf8"), name);
  if (node === undefined) throw new Error(`${name} is empty`);
  return toJson(node);
}

function decode(value: unknown) {
  const { pod, errors } = decodeStrict(value);
  if (pod === undefined) throw new Error(JSON.stringify(errors));
  return pod;
}

function uidsOf(value: unknown, path: string) {
  const pod = decode(value);
  const { uid } = pod.metadata;
  const uidFrom = (source: Parameters<typeof staticPodUid>[1]["source"]) =>
    uid || staticPodUid(pod, { nodeName, source });
  return { file: uidFrom({ kind: "file", path }), url: uidFrom(http) };
}

test("the types are those of the Kubernetes release that Berth implements", () => {
  expect(types.version).toBe(kubernetesVersion);
});

test("every manifest has a recorded uid", () => {
  expect([...Object.keys(golden.manifests), ...Object.keys(golden.lists)].toSorted()).toEqual(
    readdirSync(folder).toSorted(),
  );
});

describe("the uid of a static pod is the kubelet's", () => {
  test.each(Object.entries(golden.manifests))("%s", (name, uids) => {
    expect(uidsOf(readJson(name), `/manifests/${name}`)).toEqual(uids);
  });

  test.each(podRows)("$name", ({ name, pod }) => {
    const uids: Record<string, unknown> = golden.pods;
    expect(uidsOf(pod, "/manifests/pod.json")).toEqual(uids[name] as never);
  });

  test.each(Object.entries(golden.lists))("%s", (name, uids) => {
    const { items } = readJson(name) as { readonly items: readonly object[] };
    const pods = items.map((item) => decode({ apiVersion: "v1", kind: "Pod", ...item }));
    expect(pods.map((pod) => pod.metadata.uid ?? staticPodUid(pod, { nodeName, source: http }))).toEqual(uids);
  });
});
