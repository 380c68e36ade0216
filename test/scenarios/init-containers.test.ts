import { expect } from "bun:test";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const container = (name: string, more: Partial<Container> = {}): Container => ({ name, image: "busybox:1", ...more });
const sidecar = (name: string) => container(name, { restartPolicy: "Always" });
const relevantLines = /: (create container|start|stop|remove|pull|failed)|report/;

scenario(
  "init containers run to completion one after the other, before the pod's containers",
  {
    before(harness) {
      harness.runtime.programs.set("first", { exitsAfterMs: 2000, exitCode: 0 });
      harness.runtime.programs.set("second", { exitsAfterMs: 1000, exitCode: 0 });
    },
    async run(harness) {
      await harness.setManifests(
        makePod("web", { initContainers: [container("first"), container("second")] }, ["a", "b"]),
      );
      await harness.advance("10s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init first waiting PodInitializing, init second waiting PodInitializing, a waiting PodInitializing, b waiting PodInitializing
      0s web: create container first (attempt 0): it has not run yet
      0s web: start container first (attempt 0)
      0s report web Pending: init first running, init second waiting PodInitializing, a waiting PodInitializing, b waiting PodInitializing
      2s report web Pending: init first terminated Completed 0, init second waiting PodInitializing, a waiting PodInitializing, b waiting PodInitializing
      2s web: create container second (attempt 0): it has not run yet
      2s web: start container second (attempt 0)
      2s report web Pending: init first terminated Completed 0, init second running, a waiting PodInitializing, b waiting PodInitializing
      3s report web Pending: init first terminated Completed 0, init second terminated Completed 0, a waiting PodInitializing, b waiting PodInitializing
      3s web: create container a (attempt 0): it has not run yet
      3s web: start container a (attempt 0)
      3s report web Pending: init first terminated Completed 0, init second terminated Completed 0, a running, b waiting PodInitializing
      3s web: create container b (attempt 0): it has not run yet
      3s web: start container b (attempt 0)
      3s report web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running, b running"
    `);
  },
);

scenario(
  "a failed init container is restarted with crash loop back-off, and later containers wait",
  {
    before: (harness) => void harness.runtime.programs.set("first", { exitsAfterMs: 1000, exitCode: 1 }),
    async run(harness) {
      await harness.setManifests(makePod("web", { initContainers: [container("first"), container("second")] }));
      await harness.advance("20s");
      harness.runtime.programs.set("first", { exitsAfterMs: 1000, exitCode: 0 });
      harness.runtime.programs.set("second", { exitsAfterMs: 1000, exitCode: 0 });
      await harness.advance("40s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init first waiting PodInitializing, init second waiting PodInitializing, a waiting PodInitializing
      0s web: create container first (attempt 0): it has not run yet
      0s web: start container first (attempt 0)
      0s report web Pending: init first running, init second waiting PodInitializing, a waiting PodInitializing
      1s report web Pending: init first terminated Error 1, init second waiting PodInitializing, a waiting PodInitializing
      1s web: create container first (attempt 1): it exited with code 1
      1s report web Pending: init first waiting PodInitializing (restarts: 1), init second waiting PodInitializing, a waiting PodInitializing
      1s web: start container first (attempt 1)
      1s report web Pending: init first running (restarts: 1), init second waiting PodInitializing, a waiting PodInitializing
      2s report web Pending: init first waiting CrashLoopBackOff (restarts: 1), init second waiting PodInitializing, a waiting PodInitializing
      2s web: remove container first: a newer instance has ended too
      12s web: create container first (attempt 2): it exited with code 1
      12s report web Pending: init first waiting PodInitializing (restarts: 2), init second waiting PodInitializing, a waiting PodInitializing
      12s web: start container first (attempt 2)
      12s report web Pending: init first running (restarts: 2), init second waiting PodInitializing, a waiting PodInitializing
      13s report web Pending: init first waiting CrashLoopBackOff (restarts: 2), init second waiting PodInitializing, a waiting PodInitializing
      13s web: remove container first: a newer instance has ended too
      33s web: create container first (attempt 3): it exited with code 1
      33s report web Pending: init first waiting PodInitializing (restarts: 3), init second waiting PodInitializing, a waiting PodInitializing
      33s web: start container first (attempt 3)
      33s report web Pending: init first running (restarts: 3), init second waiting PodInitializing, a waiting PodInitializing
      34s report web Pending: init first terminated Completed 0 (restarts: 3), init second waiting PodInitializing, a waiting PodInitializing
      34s web: create container second (attempt 0): it has not run yet
      34s web: remove container first: a newer instance has ended too
      34s web: start container second (attempt 0)
      34s report web Pending: init first terminated Completed 0 (restarts: 3), init second running, a waiting PodInitializing
      35s report web Pending: init first terminated Completed 0 (restarts: 3), init second terminated Completed 0, a waiting PodInitializing
      35s web: create container a (attempt 0): it has not run yet
      35s web: start container a (attempt 0)
      35s report web Running, ready: init first terminated Completed 0 (restarts: 3), init second terminated Completed 0, a running"
    `);
  },
);

scenario(
  "a pod with restartPolicy Never fails with its init container",
  {
    before: (harness) => void harness.runtime.programs.set("first", { exitsAfterMs: 1000, exitCode: 3 }),
    async run(harness) {
      const initContainers = [sidecar("proxy"), container("first")];
      await harness.setManifests(makePod("web", { restartPolicy: "Never", initContainers }));
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init proxy waiting PodInitializing, init first waiting PodInitializing, a waiting PodInitializing
      0s web: create container proxy (attempt 0): it has not run yet
      0s web: start container proxy (attempt 0)
      0s report web Pending: init proxy running, init first waiting PodInitializing, a waiting PodInitializing
      0s web: create container first (attempt 0): it has not run yet
      0s web: start container first (attempt 0)
      0s report web Pending: init proxy running, init first running, a waiting PodInitializing
      1s report web Pending, terminating: init proxy running, init first terminated Error 3, a waiting PodInitializing
      1s web: stop container proxy within 30s: its init container first has failed
      1s report web Failed, terminating: init proxy terminated Error 143, init first terminated Error 3, a waiting PodInitializing
      1s web: stop sandbox: its init container first has failed
      1s report web Failed, terminated: init proxy terminated Error 143, init first terminated Error 3, a waiting PodInitializing"
    `);
  },
);

scenario(
  "a sidecar starts before the containers, is restarted when it exits, and does not keep the pod from completing",
  {
    before: (harness) => void harness.runtime.programs.set("work", { exitsAfterMs: 30_000, exitCode: 0 }),
    async run(harness) {
      const spec = { restartPolicy: "Never" as const, initContainers: [sidecar("proxy")] };
      await harness.setManifests(makePod("job", spec, ["work"]));
      await harness.advance("1s");
      await harness.exit("proxy", 1);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report job Pending: init proxy waiting PodInitializing, work waiting PodInitializing
      0s job: create container proxy (attempt 0): it has not run yet
      0s job: start container proxy (attempt 0)
      0s report job Pending: init proxy running, work waiting PodInitializing
      0s job: create container work (attempt 0): it has not run yet
      0s job: start container work (attempt 0)
      0s report job Running, ready: init proxy running, work running
      1s report job Running: init proxy terminated Error 1, work running
      1s job: create container proxy (attempt 1): it exited with code 1
      1s report job Running: init proxy waiting PodInitializing (restarts: 1), work running
      1s job: start container proxy (attempt 1)
      1s report job Running, ready: init proxy running (restarts: 1), work running
      30s report job Running, terminating: init proxy running (restarts: 1), work terminated Completed 0
      30s job: stop container proxy within 30s: all its containers are done
      30s report job Succeeded, terminating: init proxy terminated Error 143 (restarts: 1), work terminated Completed 0
      30s job: stop sandbox: all its containers are done
      30s report job Succeeded, terminated: init proxy terminated Error 143 (restarts: 1), work terminated Completed 0"
    `);
  },
);

scenario(
  "sidecars stop last, in reverse order, within the pod's grace period",
  {
    before(harness) {
      harness.runtime.programs.set("a", { onTerm: "ignores" });
      harness.runtime.programs.set("late", { onTerm: "ignores" });
    },
    async run(harness) {
      const spec = { terminationGracePeriodSeconds: 6, initContainers: [sidecar("early"), sidecar("late")] };
      await harness.setManifests(makePod("web", spec));
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /terminating|stop|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: init early running, init late running, a running
      6s web: stop container early within 2s: its manifest is gone
      6s report web Running, terminating: init early terminated Error 143, init late running, a running
      6s web: stop container a within 6s: its manifest is gone
      6s report web Running, terminating: init early terminated Error 143, init late running, a terminated Error 137
      8s web: stop container late within 2s: its manifest is gone
      8s report web Running, terminating: init early terminated Error 143, init late terminated Error 137, a terminated Error 137
      8s web: stop sandbox: its manifest is gone
      8s report web Running, finished: init early terminated Error 143, init late terminated Error 137, a terminated Error 137"
    `);
  },
);

scenario(
  "the containers of a dead sandbox stop in the same order within one grace period",
  {
    before(harness) {
      harness.runtime.programs.set("a", { onTerm: "ignores" });
      harness.runtime.programs.set("late", { onTerm: "ignores" });
    },
    async run(harness) {
      const spec = { terminationGracePeriodSeconds: 6, initContainers: [sidecar("early"), sidecar("late")] };
      await harness.setManifests(makePod("web", spec));
      await harness.advance("1s");
      const [sandbox] = harness.runtime.sandboxes.keys();
      harness.runtime.exitSandbox(sandbox!);
      await harness.advance("30s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|sandbox/)).toMatchInlineSnapshot(`
      "0s web: run sandbox (attempt 0): the pod has none
      7s web: stop container early within 2s: the pod's sandbox changed, it will be killed and re-created
      7s web: stop container a within 6s: the pod's sandbox changed, it will be killed and re-created
      9s web: stop container late within 2s: the pod's sandbox changed, it will be killed and re-created
      9s web: stop sandbox: the last one is not ready
      9s web: run sandbox (attempt 1): the last one is not ready"
    `);
  },
);

scenario(
  "the init containers run again in a new sandbox",
  {
    endDependsOnLag: "the sidecar restarts in the old sandbox if its exit is shown before that of the sandbox",
    before: (harness) => void harness.runtime.programs.set("first", { exitsAfterMs: 1000, exitCode: 0 }),
    async run(harness) {
      await harness.setManifests(makePod("web", { initContainers: [container("first"), sidecar("proxy")] }));
      await harness.advance("5s");
      harness.takeLog();
      const [sandbox] = harness.runtime.sandboxes.keys();
      void harness.runtime.stopPodSandbox(sandbox!);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "5s report web Running: init first terminated Completed 0, init proxy terminated Error 137, a terminated Error 137
      5s web: stop sandbox: the last one is not ready
      5s report web Pending: init first terminated Completed 0, init proxy terminated Error 137, a terminated Error 137
      5s web: create container first (attempt 1): it exited with code 0
      5s report web Pending: init first waiting PodInitializing (restarts: 1), init proxy terminated Error 137, a terminated Error 137
      5s web: start container first (attempt 1)
      5s report web Pending: init first running (restarts: 1), init proxy terminated Error 137, a terminated Error 137
      6s report web Pending: init first terminated Completed 0 (restarts: 1), init proxy terminated Error 137, a terminated Error 137
      6s web: create container proxy (attempt 1): it exited with code 137
      6s web: remove container first: a newer instance has ended too
      6s report web Pending: init first terminated Completed 0 (restarts: 1), init proxy waiting PodInitializing (restarts: 1), a terminated Error 137
      6s web: start container proxy (attempt 1)
      6s report web Running: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a terminated Error 137
      6s web: create container a (attempt 1): it exited with code 137
      6s report web Running: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a waiting PodInitializing (restarts: 1)
      6s web: start container a (attempt 1)
      6s report web Running, ready: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a running (restarts: 1)"
    `);
  },
);

scenario(
  "a container's own restartPolicy and restartPolicyRules override the pod's",
  {
    before(harness) {
      harness.runtime.programs.set("once", { exitsAfterMs: 1000, exitCode: 1 });
      harness.runtime.programs.set("again", { exitsAfterMs: 2000, exitCode: 42 });
    },
    async run(harness) {
      const restartPolicyRules = [{ action: "Restart", exitCodes: { operator: "In", values: [42] } }] as const;
      const containers = [
        container("once", { restartPolicy: "Never" }),
        container("again", { restartPolicy: "Never", restartPolicyRules }),
      ];
      await harness.setManifests(makePod("web", { containers }));
      await harness.advance("5s");
      harness.runtime.programs.set("again", { exitsAfterMs: 2000, exitCode: 0 });
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: again waiting ContainerCreating, once waiting ContainerCreating
      0s web: create container once (attempt 0): it has not run yet
      0s web: start container once (attempt 0)
      0s report web Pending: again waiting ContainerCreating, once running
      0s web: create container again (attempt 0): it has not run yet
      0s web: start container again (attempt 0)
      0s report web Running, ready: again running, once running
      1s report web Running: again running, once terminated Error 1
      2s report web Running: again terminated Error 42, once terminated Error 1
      2s web: create container again (attempt 1): it exited with code 42
      2s report web Running: again waiting ContainerCreating (restarts: 1), once terminated Error 1
      2s web: start container again (attempt 1)
      2s report web Running: again running (restarts: 1), once terminated Error 1
      4s report web Running: again waiting CrashLoopBackOff (restarts: 1), once terminated Error 1
      4s web: remove container again: a newer instance has ended too
      14s web: create container again (attempt 2): it exited with code 42
      14s report web Running: again waiting ContainerCreating (restarts: 2), once terminated Error 1
      14s web: start container again (attempt 2)
      14s report web Running: again running (restarts: 2), once terminated Error 1
      16s report web Failed, terminating: again terminated Completed 0 (restarts: 2), once terminated Error 1
      16s web: stop sandbox: all its containers are done
      16s report web Failed, terminated: again terminated Completed 0 (restarts: 2), once terminated Error 1"
    `);
  },
);
