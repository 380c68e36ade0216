import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { readPodListManifest, readPodManifest } from "./manifest.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;
const place = { path: "/m/a.yaml", nodeName: "node" };

const good = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "web", labels: { app: "web" } },
  spec: {
    restartPolicy: "Always",
    containers: [
      {
        name: "a",
        image: "busybox:1",
        env: [{ name: "A", value: "b" }],
        ports: [{ containerPort: 80 }],
        resources: { requests: { cpu: "100m" }, limits: { memory: "1Gi" } },
        volumeMounts: [{ name: "v", mountPath: "/v" }],
      },
    ],
    volumes: [{ name: "v", emptyDir: {} }],
  },
};

type Path = readonly (string | number)[];

function pathsOf(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value !== "object" || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, below]) => pathsOf(below, [...path, key]))];
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  if (Array.isArray(value))
    return value.map((item, index) => (String(index) === String(key) ? replaced(item, rest, by) : item));
  return { ...(value as object), [key]: replaced((value as Record<string, unknown>)[key], rest, by) };
}

/** A valid manifest with one value, anywhere, replaced. */
const almostGood = fc
  .tuple(fc.constantFrom(...pathsOf(good)), fc.oneof(fc.jsonValue(), fc.string({ unit: "binary" }), fc.integer()))
  .map(([path, by]) => JSON.stringify(replaced(good, path, by)));

/** A valid manifest with other texts and numbers. */
const valid = fc
  .tuple(
    fc.stringMatching(/^[a-z0-9]{1,20}$/),
    fc.string({ unit: "grapheme" }),
    fc.integer({ min: 1, max: 65_535 }),
    fc.constantFrom("Always", "OnFailure", "Never"),
  )
  .map(([name, value, containerPort, restartPolicy]) => {
    const [container] = good.spec.containers;
    const containers = [{ ...container, env: [{ name: "A", value }], ports: [{ containerPort }] }];
    return JSON.stringify({ ...good, metadata: { name }, spec: { ...good.spec, restartPolicy, containers } });
  });

const anyText = fc.oneof(
  { weight: 3, arbitrary: almostGood },
  { weight: 3, arbitrary: valid },
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.json(),
);

test("the valid manifest is accepted", async () => {
  expect((await readPodManifest(JSON.stringify(good), place)).problem).toBeUndefined();
});

test(
  "any text yields a pod of this node, or a one-line error",
  async () => {
    let accepted = 0;
    const property = fc.asyncProperty(anyText, async (text) => {
      const { pod, problem } = await readPodManifest(text, place);
      if (pod === undefined) {
        expect(problem).toStartWith(place.path);
        expect(problem).not.toContain("\n");
      } else {
        accepted += 1;
        expect(pod.metadata.name).toEndWith("-node");
        expect(pod.metadata.uid).toMatch(/^[A-Za-z0-9._-]+$/);
        expect(pod.spec.containers.length).toBeGreaterThan(0);
      }
    });
    await fc.assert(property, { numRuns });
    expect(accepted).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test(
  "any response of a URL yields a list of pods, or a one-line error",
  async () => {
    const url = "http://pods.example/";
    let accepted = 0;
    const list = fc
      .array(fc.oneof({ weight: 1, arbitrary: almostGood }, { weight: 4, arbitrary: valid }), { maxLength: 3 })
      .map((items) => `{"kind":"PodList","items":[${items.join(",")}]}`);
    const property = fc.asyncProperty(fc.oneof(list, anyText), async (text) => {
      const { pods, problem } = await readPodListManifest(text, { url, nodeName: "node" });
      expect(pods === undefined).toBe(problem !== undefined);
      expect(problem ?? "").not.toContain("\n");
      if (pods !== undefined && pods.length > 0) accepted += 1;
    });
    await fc.assert(property, { numRuns });
    expect(accepted).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test(
  "the fast JSON reader returns the same as the YAML parser",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(almostGood, valid), async (text) => {
        // With a trailing comment it is YAML.
        expect(await readPodManifest(text, place)).toEqual(await readPodManifest(`${text} # as YAML`, place));
      }),
      { numRuns: numRuns / 5 },
    );
  },
  longMs,
);
