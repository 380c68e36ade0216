import { expect, test } from "bun:test";
import { createKubeletMetrics } from "./kubelet-metrics.ts";
import { createNodeStartRecorder } from "./node-start-recorder.ts";

function startRecorder() {
  const metrics = createKubeletMetrics();
  let now = 20_000;
  const recorder = createNodeStartRecorder(metrics, { now: () => now }, () => ({ bootAt: 0, agentAt: 15_000 }));
  const phases = () =>
    Object.fromEntries(
      metrics.kubelet
        .families()
        .filter(({ name }) => name.startsWith("kubelet_node_startup_"))
        .map(({ name, samples }) => [
          name.slice("kubelet_node_startup_".length).replace(/_?duration_seconds$/, ""),
          samples[0]?.value,
        ]),
    );
  return {
    recorder,
    phases,
    advance: (ms: number) => {
      now += ms;
    },
  };
}

test("the phases of the start of a new node are measured once", () => {
  const { recorder, phases, advance } = startRecorder();
  recorder.onRegistering();
  advance(1_000);
  recorder.onRegistering();
  recorder.onRegistered();
  advance(3_000);
  for (const each of [1, 2]) {
    recorder.onReady();
    advance(each * 10_000);
    recorder.onRegistered();
  }
  expect(phases()).toEqual({ "": 24, pre_kubelet: 15, pre_registration: 5, registration: 1, post_registration: 3 });
});

test("a node that was registered before is not measured", () => {
  const { recorder, phases } = startRecorder();
  recorder.onRegistering();
  recorder.onReady();
  expect(Object.values(phases())).toEqual([0, 0, 0, 0, 0]);
});
