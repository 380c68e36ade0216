// The runtime is killed while it starts a container that may run only once.
import { expect } from "bun:test";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

/** Kills the runtime for ten seconds; `atReturn` is done right before it answers again. */
function killRuntime({ runtime, clock }: AgentHarness, atReturn: () => void = () => undefined): void {
  runtime.goDown();
  clock.wakeAt(clock.now() + 10_000, () => {
    atReturn();
    runtime.comeBack();
  });
}

async function runJob(harness: AgentHarness): Promise<void> {
  await harness.setManifests(makePod("job", { restartPolicy: "Never" }));
  await harness.advance("60s");
}

const startsAndReports = (log: string) => filterLines(log, /: (create|start|failed to start) container|report/);

scenario(
  "a container that was not started when the runtime was killed is started when it is back",
  {
    before(harness) {
      harness.runtime.programs.set("a", { exitsAfterMs: 20_000 });
      harness.runtime.before.startContainer = () => {
        delete harness.runtime.before.startContainer;
        killRuntime(harness);
      };
    },
    run: runJob,
  },
  (log) => {
    expect(startsAndReports(log)).toMatchInlineSnapshot(`
      "0s report job Pending: a waiting ContainerCreating
      0s job: create container a (attempt 0): it has not run yet
      10s job: start container a (attempt 0)
      10s report job Running, ready: a running
      30s report job Succeeded, terminating: a terminated Completed 0
      30s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);

scenario(
  "a container that was started when the runtime was killed runs on and is not started again",
  {
    before(harness) {
      harness.runtime.programs.set("a", { exitsAfterMs: 20_000 });
      harness.runtime.after.startContainer = () => {
        delete harness.runtime.after.startContainer;
        killRuntime(harness);
      };
    },
    run: runJob,
  },
  (log) => {
    expect(startsAndReports(log)).toMatchInlineSnapshot(`
      "0s report job Pending: a waiting ContainerCreating
      0s job: create container a (attempt 0): it has not run yet
      10s report job Running, ready: a running
      20s report job Succeeded, terminating: a terminated Completed 0
      20s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);

scenario(
  "a container whose start the runtime has lost, and which it shows as created, is started again",
  {
    before(harness) {
      const { runtime } = harness;
      runtime.programs.set("a", { exitsAfterMs: 20_000 });
      runtime.after.startContainer = () => {
        delete runtime.after.startContainer;
        const [id] = runtime.containers.keys();
        killRuntime(harness, () => id !== undefined && runtime.undoStart(id));
      };
    },
    run: runJob,
  },
  (log) => {
    expect(startsAndReports(log)).toMatchInlineSnapshot(`
      "0s report job Pending: a waiting ContainerCreating
      0s job: create container a (attempt 0): it has not run yet
      10s job: start container a (attempt 0)
      10s report job Running, ready: a running
      30s report job Succeeded, terminating: a terminated Completed 0
      30s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);

scenario(
  "a container whose interrupted start has left a task is created again, although its pod never restarts",
  {
    before(harness) {
      const { runtime } = harness;
      runtime.programs.set("a", { exitsAfterMs: 20_000 });
      runtime.before.startContainer = () => {
        killRuntime(harness);
        runtime.before.startContainer = () => {
          delete runtime.before.startContainer;
          runtime.programs.set("a", { startError: "task container-2: already exists" });
        };
      };
      runtime.before.createContainer = () => void runtime.programs.set("a", { exitsAfterMs: 20_000 });
    },
    run: runJob,
  },
  (log) => {
    expect(startsAndReports(log)).toMatchInlineSnapshot(`
      "0s report job Pending: a waiting ContainerCreating
      0s job: create container a (attempt 0): it has not run yet
      10s job: failed to start container a (attempt 0): failed to create containerd task: task container-2: already exists
      10s report job Running: a waiting RunContainerError
      11s job: create container a (attempt 1): it exited with code 128
      11s report job Running: a waiting RunContainerError (restarts: 1)
      11s job: start container a (attempt 1)
      11s report job Running, ready: a running (restarts: 1)
      31s report job Succeeded, terminating: a terminated Completed 0 (restarts: 1)
      31s report job Succeeded, terminated: a terminated Completed 0 (restarts: 1)"
    `);
  },
);

scenario(
  "a container whose state the runtime has lost before the start is removed and created again, although its pod never restarts",
  {
    before(harness) {
      const { runtime } = harness;
      runtime.programs.set("a", { exitsAfterMs: 20_000 });
      runtime.after.createContainer = () => {
        delete runtime.after.createContainer;
        const [id] = runtime.containers.keys();
        killRuntime(harness, () => id !== undefined && runtime.setUnknown(id));
      };
    },
    run: runJob,
  },
  (log) => {
    expect(filterLines(log, /: (create|start|remove|stop) container|report/)).toMatchInlineSnapshot(`
      "0s report job Pending: a waiting ContainerCreating
      10s job: remove container a: it was never started
      10s job: create container a (attempt 0): it has not run yet
      10s job: start container a (attempt 0)
      10s report job Running, ready: a running
      30s report job Succeeded, terminating: a terminated Completed 0
      30s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);
