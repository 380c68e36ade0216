import { expect, test } from "bun:test";
import { createReadRecorder, podReadsOf } from "./object-reads.ts";

const configMaps = "GET /api/v1/namespaces/default/configmaps";
const watchOf = (name: string) =>
  `${configMaps}?fieldSelector=metadata.name%3D${name}&watch=true&sendInitialEvents=true`;
const added = '{"type":"ADDED","object":{}}\n';
const bookmark = '{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}\n';

test("a watched object is there when its present state is complete, and a plain read with its last part", () => {
  let now = 0;
  const recorder = createReadRecorder(() => now);
  const arrive = (request: { readonly line: string; readonly at: number }, at: number, text: string) => {
    now = at;
    recorder.onData(request, Buffer.from(text));
  };
  const [first, second] = [
    { line: watchOf("a"), at: 10 },
    { line: watchOf("b"), at: 11 },
  ];
  const plain = [
    { line: `${configMaps}/a`, at: 100 },
    { line: `${configMaps}/b`, at: 100 },
  ] as const;
  arrive(first, 12, added);
  arrive(first, 14, bookmark.slice(0, 70));
  arrive(second, 15, added + bookmark);
  arrive(first, 17, bookmark.slice(70));
  arrive(second, 60, added);
  arrive({ line: "GET /api/v1/pods?watch=true", at: 5 }, 20, bookmark);
  arrive(plain[0], 103, "{");
  arrive(plain[0], 105, "}");
  arrive(plain[1], 104, "{}");
  const reads = recorder.take();
  expect(podReadsOf(reads, 2)).toEqual({ agentMs: 7, slowestGetMs: 5 });
  expect(recorder.take()).toEqual([]);
  expect(() => podReadsOf(reads, 3)).toThrow("of 3 objects the agent has read 2, and 2 were read plainly");
});
