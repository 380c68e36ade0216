import { expect, test } from "bun:test";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStateTerminated, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedContainer } from "../pod/observed.ts";
import { withLateReasons } from "./oom-reason.ts";

const exited = (id: string, exitCode: number, reason: string): ObservedContainer => ({
  state: "exited",
  id: id as ContainerId,
  name: "a",
  sandboxId: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  image: "busybox:1",
  imageRef: "",
  crashes: 0,
  hash: undefined,
  startedAt: 0,
  finishedAt: 0,
  exitCode,
  reason,
  message: "",
});

const toldAs = (terminated: ContainerStateTerminated): PodStatus => ({
  phase: "Failed",
  containerStatuses: [
    {
      name: "a",
      ready: false,
      restartCount: 0,
      image: "busybox:1",
      imageID: "",
      ...(terminated.containerID !== undefined && { containerID: terminated.containerID }),
      state: { terminated },
    },
  ],
});

const rows: readonly [sentence: string, told: ContainerStateTerminated, seen: ObservedContainer, reason: string][] = [
  ["an end by SIGKILL", end(137, "Error", "1"), exited("1", 137, "OOMKilled"), "OOMKilled"],
  ["an end by SIGKILL that had no such reason", end(137, "Error", "1"), exited("1", 137, "Error"), "Error"],
  ["an end of another instance", end(137, "Error", "1"), exited("2", 137, "OOMKilled"), "Error"],
  ["an end by itself", end(1, "Error", "1"), exited("1", 1, "OOMKilled"), "Error"],
  ["an end with a reason of its own", end(137, "StartError", "1"), exited("1", 137, "OOMKilled"), "StartError"],
];

function end(exitCode: number, reason: string, id: string): ContainerStateTerminated {
  return { exitCode, reason, containerID: `containerd://${id}` };
}

for (const [sentence, told, seen, reason] of rows)
  test(`the last word on ${sentence} is ${reason}`, () => {
    const last = toldAs(told);
    const mended = withLateReasons(last, { containers: [seen] });
    expect(mended.containerStatuses?.[0]?.state).toEqual({ terminated: { ...told, reason } });
    expect(mended === last).toBe(reason === told.reason);
  });
